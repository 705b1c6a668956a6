//! `leasehold completions` and `leasehold man`: made from the parser of the command line.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man as Page;

use crate::exit::Failure;
use crate::output::put;

/// Prints a shell's completions for leasehold.
///
/// For bash: leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Name of the shell
    shell: Shell,
}

/// Prints the manual page, or writes all pages into a directory.
///
/// To read it: leasehold man | man -l -
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Directory for leasehold.1 and a page per command
    directory: Option<PathBuf>,
}

impl Completions {
    pub fn perform(self, mut command: Command) -> Result<u8, Failure> {
        command.build();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "leasehold", &mut script);
        put(&script)?;
        Ok(0)
    }
}

impl Man {
    pub fn perform(self, mut command: Command) -> Result<u8, Failure> {
        if let Some(directory) = self.directory {
            let written = clap_mangen::generate_to(command, directory);
            written.map_err(|error| Failure::System("the manual cannot be written", error))?;
            return Ok(0);
        }
        command.build();
        let mut page = Vec::new();
        Page::new(command).render(&mut page).map_err(Failure::Output)?;
        put(&page)?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use clap::Arg;

    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    /// If set, the tests write the tables of options again.
    const UPDATE: &str = "LEASEHOLD_UPDATE";
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/command.md");

    #[test]
    fn the_page_of_the_command_has_the_options_that_help_has() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let mut fresh = page.clone();
        let root = Args::command();
        with_options_of(&mut fresh, "leasehold", &root);
        for command in root.get_subcommands() {
            with_options_of(&mut fresh, &format!("leasehold {}", command.get_name()), command);
        }
        if std::env::var_os(UPDATE).is_some() {
            return std::fs::write(PAGE, fresh).unwrap();
        }
        assert!(page == fresh, "docs/command.md is out of date: run this again with {UPDATE}=1");
    }

    /// Help has no line breaks within sentences, because the terminal wraps it.
    #[test]
    fn help_breaks_no_sentence() {
        let root = Args::command();
        for command in root.get_subcommands() {
            let texts = [command.get_about(), command.get_long_about()];
            let options = command.get_arguments();
            let options = options.flat_map(|option| [option.get_help(), option.get_long_help()]);
            for text in texts.into_iter().chain(options).flatten().map(ToString::to_string) {
                let is_broken = text.split("\n\n").any(|paragraph| paragraph.contains('\n'));
                assert!(!is_broken, "{}: {text}", command.get_name());
            }
        }
    }

    /// Puts the command's table between its two marks.
    fn with_options_of(page: &mut String, name: &str, command: &Command) {
        let (mark, end) = (format!("<!-- options: {name} -->\n"), "<!-- end -->");
        let start = page.find(&mark).unwrap_or_else(|| panic!("no {mark}")) + mark.len();
        let length = page[start..].find(end).expect("the table ends");
        let mut table = "\n| Option | |\n|---|---|\n".to_owned();
        for arg in command.get_arguments() {
            writeln!(table, "| {} | {} |", spelling(arg), meaning(arg)).unwrap();
        }
        page.replace_range(start..start + length, &(table + "\n"));
    }

    /// `-w`, `--wait`, `--timeout` `TIME`
    fn spelling(arg: &Arg) -> String {
        let short = arg.get_short().map(|short| format!("`-{short}`"));
        let aliases = arg.get_visible_aliases().unwrap_or_default();
        let long = arg.get_long().into_iter().chain(aliases).map(|long| format!("`--{long}`"));
        let names = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
        let takes_value = arg.get_action().takes_values();
        let values = arg.get_value_names().filter(|_| takes_value).unwrap_or_default();
        let values = values.iter().map(|value| format!("`{value}`"));
        let names = (!names.is_empty()).then_some(names);
        names.into_iter().chain(values).collect::<Vec<_>>().join(" ")
    }

    fn meaning(arg: &Arg) -> String {
        let help = arg.get_help().expect("every option says what it is").to_string();
        let mut text = help.replace('\n', " ").replace('|', "\\|");
        let choices = arg.get_possible_values();
        if !choices.is_empty() && arg.get_action().takes_values() {
            let names: Vec<_> =
                choices.iter().map(clap::builder::PossibleValue::get_name).collect();
            write!(text, " [{}]", names.join(", ")).unwrap();
        }
        if let Some(variable) = arg.get_env() {
            write!(text, " [`{}`]", variable.to_string_lossy()).unwrap();
        }
        let is_given = |value: &&clap::builder::OsStr| !value.is_empty();
        let default = arg.get_default_values().iter().find(is_given);
        if let Some(default) = default.filter(|_| arg.get_action().takes_values()) {
            write!(text, " [default: {}]", default.to_string_lossy()).unwrap();
        }
        text
    }
}
