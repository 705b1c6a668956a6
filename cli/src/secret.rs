//! Passwords in URLs, which neither `ps` nor the command is to see.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// What URLs are passed on in, by which no other user can see them.
const GIVEN: &str = "LEASEHOLD_GIVEN_URLS";
/// The variable that users set.
const URL: &str = "LEASEHOLD_URL";

/// Where the command line has passwords in these URLs, this process begins again without them. Its last
/// words, as many as `foreign`, are another command's.
pub fn hide(urls: &mut Vec<String>, foreign: usize) {
    if let Ok(given) = env::var(GIVEN) {
        *urls = given.split(' ').map(str::to_owned).collect();
        return;
    }
    let words: Vec<OsString> = env::args_os().collect();
    let ours = words.len() - foreign;
    let hidden = words.iter().enumerate().map(|(index, word)| match word.to_str() {
        Some(text) if index < ours => hide_in(text, urls).into(),
        _ => word.clone(),
    });
    let hidden: Vec<OsString> = hidden.collect();
    if hidden == words {
        return;
    }
    let Some((name, rest)) = hidden.split_first() else { return };
    if let Ok(program) = own_program() {
        let given = urls.join(" ");
        // Comes back only if it cannot be done; then the locks are worth more than the secret.
        let _ = Command::new(program).arg0(name).args(rest).env(GIVEN, given).exec();
    }
}

/// Takes what `command` is not to know out of its environment.
pub fn keep_from(command: &mut Command) {
    command.env_remove(GIVEN);
    if env::var(URL).is_ok_and(|urls| urls.split(' ').any(|url| mask(url).is_some())) {
        command.env_remove(URL);
    }
}

/// This very program, as it was started, also where another has been installed in its place since.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { env::current_exe() }
}

/// The name in lists of processes: without this, one that begins again would be called as the file is by which it does so.
#[cfg(target_os = "linux")]
pub fn keep_name() {
    let word = PathBuf::from(env::args_os().next().unwrap_or_default());
    let name = word.file_name().map(|name| std::ffi::CString::new(name.as_encoded_bytes()));
    if let Some(Ok(name)) = name {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// In a word that is these URLs and nothing else, behind an option or by itself: not in a line for a shell, nor in a name.
fn hide_in(word: &str, urls: &[String]) -> String {
    let are_urls = |text: &str| text.split(' ').all(|url| urls.iter().any(|known| known == url));
    let mut ends = word.char_indices().map(|(at, _)| word.split_at(at));
    let is_option = |text: &str| text.is_empty() || text.starts_with('-') && !text.contains(' ');
    let given = ends.find(|(option, end)| is_option(option) && are_urls(end));
    let Some((option, given)) = given else { return word.to_owned() };
    let hidden = given.split(' ').map(|url| mask(url).unwrap_or_else(|| url.to_owned()));
    option.to_owned() + &hidden.collect::<Vec<_>>().join(" ")
}

/// The same URL without its password; None where there is none to see.
fn mask(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (login, place) = rest.rsplit_once('@')?;
    let (user, password) = login.split_once(':')?;
    (!password.is_empty() && password != MASK).then(|| format!("{scheme}://{user}:{MASK}@{place}"))
}

const MASK: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_hidden_and_nothing_else() {
        let table = [
            ("redis://:secret@h:1/2", Some("redis://:***@h:1/2")),
            ("rediss://me:se:cr@t@h", Some("rediss://me:***@h")),
            ("redis+unix://:x@/run/s?db=1", Some("redis+unix://:***@/run/s?db=1")),
            ("redis://h:6379", None),
            ("redis://me@h", None),
            ("redis://me:***@h", None),
            ("h", None),
        ];
        for (url, expected) in table {
            assert_eq!(mask(url).as_deref(), expected, "{url}");
        }
        let urls = ["redis://:a@h", "redis://g"].map(str::to_owned);
        assert_eq!(
            hide_in("--url=redis://:a@h redis://g", &urls),
            "--url=redis://:***@h redis://g"
        );
        for option in ["--url=", "-u", "-u=", "-nu", "-nqu=", ""] {
            let [given, hidden] =
                ["redis://:a@h", "redis://:***@h"].map(|url| format!("{option}{url}"));
            assert_eq!(hide_in(&given, &urls), hidden);
        }
        let lines =
            ["redis-cli -u redis://:a@h PING", "-credis-cli -u redis://:a@h", "job redis://:a@h"];
        for foreign in lines.into_iter().chain(["--command=redis-cli -u redis://:a@h", "-c", ""]) {
            assert_eq!(hide_in(foreign, &urls), foreign);
        }
    }
}
