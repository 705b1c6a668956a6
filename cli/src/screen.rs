//! The terminal as a page that is redrawn, and is restored at the end.

use std::io::{self, IsTerminal, Read, stdin, stdout};
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::exit::Failure;
use crate::output::show;
use crate::page::Page;

/// Switches to the alternate screen without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// If the terminal does not report its size.
const SIZE: (usize, usize) = (24, 80);

/// The terminal during the display; dropping it, also by a panic, restores it.
pub struct Screen {
    before: Termios,
}

impl Screen {
    /// Whether both the output and the input are a terminal.
    pub fn is_there() -> bool {
        stdin().is_terminal() && stdout().is_terminal()
    }

    pub fn enter() -> Result<Self, Failure> {
        let changed = tcgetattr(stdin()).and_then(|before| {
            let mut ours = before.clone();
            // Keys arrive at once and without echo; Ctrl-C stays a signal.
            ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(stdin(), OptionalActions::Now, &ours)?;
            Ok(Self { before })
        });
        let screen = changed.map_err(|error| Failure::System("the terminal", error.into()))?;
        show(ENTER.as_bytes())?;
        Ok(screen)
    }

    /// Draws as many rows as fit.
    pub fn draw(&self, shown: &mut Page) -> Result<(), Failure> {
        let size = size();
        show(page(&shown.lines(size), size).as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = show(LEAVE.as_bytes());
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// Rows and columns.
fn size() -> (usize, usize) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => SIZE,
    }
}

fn page(lines: &[String], (rows, columns): (usize, usize)) -> String {
    let mut page = HOME.to_owned();
    for (row, line) in lines.iter().take(rows).enumerate() {
        if row > 0 {
            page.push_str("\r\n");
        }
        // Marks a line that is cut.
        let is_cut = line.chars().nth(columns).is_some();
        page.extend(line.chars().take(columns - usize::from(is_cut)));
        page.push_str(if is_cut { "…" } else { "" });
        page.push_str(CLEAR_REST_OF_LINE);
    }
    page.push_str(CLEAR_BELOW);
    page
}

/// The keys from now on.
pub fn keys() -> UnboundedReceiver<u8> {
    let (told, keys) = unbounded_channel();
    // On a thread of its own: the runtime would wait for a key at its end.
    thread::spawn(move || {
        for key in stdin().lock().bytes() {
            let is_heard = match key {
                Ok(key) => told.send(key).is_ok(),
                Err(error) => error.kind() == io::ErrorKind::Interrupted,
            };
            if !is_heard {
                break;
            }
        }
    });
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_never_scrolls() {
        let lines = ["heading", "a long line", "no room"].map(str::to_owned);
        assert_eq!(page(&lines, (2, 6)), "\x1b[Hheadi…\x1b[K\r\na lon…\x1b[K\x1b[J");
        assert_eq!(page(&[], (2, 6)), "\x1b[H\x1b[J");
    }
}
