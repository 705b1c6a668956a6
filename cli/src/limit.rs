//! `leasehold limit`: a rate limit around a command.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use leasehold::limits::{Allowance, Rate};

use crate::exit::Failure;
use crate::servers::{PIPES_WITHIN, Servers};
use crate::succeed::{find, succeed_as};
use crate::times::duration;
use crate::waits::{self, Until};
use crate::words::complain;

/// Takes tokens of a rate limit, and runs a command if there are enough.
///
/// All hosts that give the same name and the same rate share the limit. leasehold becomes the command:
/// nothing of it stays while the command runs. Without a command, the exit code is the answer.
///
/// Exit code: the command's; 1 (or the code of -E) if there are too few tokens, and leasehold says when
/// there will be enough; 69 if no server answers, 77 if they refuse the login or a right, 78 if an option
/// or URL is wrong, or another rate is in use under the name; 126 or 127 if the command cannot be run or
/// found; 64 for a wrong command line.
#[derive(Debug, clap::Args)]
pub struct Limit {
    /// Tokens that may be taken at once, after enough time without any; without it all of a period
    #[arg(long, value_name = "TOKENS")]
    burst: Option<u32>,

    /// Tokens to take
    #[arg(short = 'n', long, value_name = "TOKENS", default_value_t = 1)]
    tokens: u32,

    /// Wait until there are enough tokens, if that takes at most this time; servers that are down may come
    /// back until then
    #[arg(short, long, value_name = "TIME", value_parser = duration, default_value = "0")]
    wait: Duration,

    /// Exit code if there are too few tokens
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::CONFLICT)]
    conflict_exit_code: u8,

    /// Do not say when there will be enough tokens
    #[arg(short, long)]
    quiet: bool,

    /// Name of the limit
    name: OsString,

    /// How many tokens come back in what time: 100/1m, 5/1s
    #[arg(value_parser = rate)]
    rate: Rate,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

impl Limit {
    pub async fn perform(self, servers: &Servers) -> Result<u8, Failure> {
        find(&self.words)?;
        let rate = self.burst.map_or(self.rate, |burst| self.rate.burst(burst));
        let until = Until::after(Some(self.wait));
        let most = servers.connect_timeout();
        let connect = async |within| {
            let limit = (!self.wait.is_zero()).then_some(self.wait);
            let builder = servers.builder(Some(limit.unwrap_or(PIPES_WITHIN))).await?;
            Ok(builder.connect_timeout(within).connect_for_inspection().await?)
        };
        let locker = waits::connect(until, most, self.quiet, connect).await?;
        let limit = locker.limit(self.name.as_bytes(), rate);
        match limit.wait(self.tokens, until.left().unwrap_or_default()).await? {
            Allowance::Refused { retry_after } => {
                if !self.quiet {
                    let seconds = retry_after.as_secs_f64();
                    complain(&format!("limit reached: there are enough tokens in {seconds:.3} s"));
                }
                Ok(self.conflict_exit_code)
            }
            _ => succeed_as(&self.words, []),
        }
    }
}

/// `100/1m`, `5/1s`.
fn rate(text: &str) -> Result<Rate, String> {
    let form = || "a rate is a number of tokens, a slash and a time, as in 100/1m".to_owned();
    let (count, period) = text.split_once('/').ok_or_else(form)?;
    let count = count.parse().map_err(|_| form())?;
    Ok(Rate::new(count, duration(period)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_count_and_a_time() {
        assert_eq!(rate("100/1m"), Ok(Rate::new(100, Duration::from_secs(60))));
        assert_eq!(rate("5/0.5s"), Ok(Rate::new(5, Duration::from_millis(500))));
        for text in ["", "5", "/1s", "5/", "x/1s", "5/s", "-5/1s", "5/1d", "5000000000/1s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
