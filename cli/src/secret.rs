//! Hides passwords in URLs from `ps` and from the command.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The variable that passes URLs on, which other users cannot read.
const GIVEN: &str = "LEASEHOLD_GIVEN_URLS";
/// The variable that users set.
const URL: &str = "LEASEHOLD_URL";

/// If the command line has passwords in these URLs, executes this program again without them. Leaves the last `foreign`
/// words alone, which are another command's.
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
        // Returns only if it fails; then locks without a hidden password are better than none.
        let _ = Command::new(program).arg0(name).args(rest).env(GIVEN, given).exec();
    }
}

/// Removes URLs with passwords from the environment of `command`.
pub fn keep_from(command: &mut Command) {
    command.env_remove(GIVEN);
    if env::var(URL).is_ok_and(|urls| urls.split(' ').any(|url| mask(url).is_some())) {
        command.env_remove(URL);
    }
}

/// This program as it was started, even if its file was replaced since.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { env::current_exe() }
}

/// Keeps the name in process lists, which else would be that of `/proc/self/exe`.
#[cfg(target_os = "linux")]
pub fn keep_name() {
    let word = PathBuf::from(env::args_os().next().unwrap_or_default());
    let name = word.file_name().map(|name| std::ffi::CString::new(name.as_encoded_bytes()));
    if let Some(Ok(name)) = name {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// Hides passwords in a word that is these URLs alone, perhaps behind an option; a shell's line or a name stays as it
/// is.
fn hide_in(word: &str, urls: &[String]) -> String {
    let are_urls = |text: &str| text.split(' ').all(|url| urls.iter().any(|known| known == url));
    let mut ends = word.char_indices().map(|(at, _)| word.split_at(at));
    let is_option = |text: &str| text.is_empty() || text.starts_with('-') && !text.contains(' ');
    let given = ends.find(|(option, end)| is_option(option) && are_urls(end));
    let Some((option, given)) = given else { return word.to_owned() };
    let hidden = given.split(' ').map(|url| mask(url).unwrap_or_else(|| url.to_owned()));
    option.to_owned() + &hidden.collect::<Vec<_>>().join(" ")
}

/// The URL without its password; None if it has none.
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
