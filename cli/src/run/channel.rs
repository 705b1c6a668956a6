//! How the processes talk: by lines over a socket, which is the standard input of the one that was started. However a
//! process ends, the socket closes.

use std::env;
use std::fmt::{self, Display};
use std::io::{self, IoSlice, IoSliceMut, Write, stdin};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};

use crate::exit::End;
use crate::secret::own_program;

/// Messages from the front to the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToKeeper {
    /// Requests how long the lease is still valid.
    Ask,
    /// Passes this signal on to the command.
    Pass(i32),
}

/// Messages from the keeper to the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToFront {
    /// The lock is acquired, and the command starts.
    Held,
    /// The answer to `Ask`: how long the command may run without another answer.
    Left(Duration),
    /// All processes of the command have ended; the keeper's last message.
    Ended(End),
}

impl Display for ToKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask => f.write_str("ask 0"),
            Self::Pass(signal) => write!(f, "pass {signal}"),
        }
    }
}

impl ToKeeper {
    pub fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("ask", _) => Some(Self::Ask),
            ("pass", signal) => Some(Self::Pass(signal.parse().ok()?)),
            _ => None,
        }
    }
}

impl Display for ToFront {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("held 0"),
            Self::Left(left) => write!(f, "left {}", left.as_millis()),
            Self::Ended(End::Code(code)) => write!(f, "code {code}"),
            Self::Ended(End::Signal(signal)) => write!(f, "signal {signal}"),
        }
    }
}

impl ToFront {
    pub fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("held", _) => Some(Self::Held),
            ("left", ms) => Some(Self::Left(Duration::from_millis(ms.parse().ok()?))),
            ("code", code) => Some(Self::Ended(End::Code(code.parse().ok()?))),
            ("signal", signal) => Some(Self::Ended(End::Signal(signal.parse().ok()?))),
            _ => None,
        }
    }
}

/// One end of the socket.
pub struct Channel {
    heard: Lines<BufReader<tokio::net::UnixStream>>,
    said: UnixStream,
}

impl Channel {
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let said = socket.try_clone()?;
        let heard = tokio::net::UnixStream::from_std(socket)?;
        Ok(Self { heard: BufReader::new(heard).lines(), said })
    }

    /// Sends a line at once, or drops it: a stopped process must not block this one. Each request waits for its answer,
    /// so that the few lines fit into the socket.
    pub fn say(&self, line: impl Display) {
        let _ = (&self.said).write_all(format!("{line}\n").as_bytes());
    }

    /// Tells the other end that no more lines come; it may still send.
    pub fn hang_up(&self) {
        let _ = self.said.shutdown(Shutdown::Write);
    }

    /// The next line; None if the other end has closed.
    ///
    /// # Cancel safety
    ///
    /// No line is lost when the future is dropped.
    pub async fn hear(&mut self) -> Option<String> {
        self.heard.next_line().await.ok().flatten()
    }
}

/// Starts this program again, with the same arguments and with `name` as its own name, and passes it an input for the
/// command.
pub fn start_ourselves(name: &str, input: impl AsFd) -> io::Result<(Pid, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut ourselves = Command::new(own_program()?);
    ourselves.arg0(name).args(env::args_os().skip(1)).stdin(OwnedFd::from(theirs));
    let child = ourselves.spawn()?;
    give(&ours, input)?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok((id.ok_or(io::ErrorKind::InvalidData)?, ours))
}

/// In a process of `start_ourselves`: the socket, and the input that was passed with it.
pub fn given() -> io::Result<(UnixStream, OwnedFd)> {
    let socket = UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
    let input = take(&socket)?;
    Ok((socket, input))
}

fn give(socket: &UnixStream, input: impl AsFd) -> io::Result<()> {
    let input = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&input));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

fn take(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::empty())?;
    let input = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let input = input.ok_or(io::ErrorKind::UnexpectedEof)?;
    fcntl_setfd(&input, FdFlags::CLOEXEC)?;
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for said in [ToKeeper::Ask, ToKeeper::Pass(15)] {
            assert_eq!(ToKeeper::parse(&said.to_string()), Some(said));
        }
        let ended = [End::Code(7), End::Signal(2)].map(ToFront::Ended);
        for said in [ToFront::Held, ToFront::Left(Duration::from_millis(2500))].iter().chain(&ended)
        {
            assert_eq!(ToFront::parse(&said.to_string()), Some(*said));
        }
    }

    #[test]
    fn a_file_goes_through_a_socket() {
        use std::io::Read;
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = UnixStream::pair().unwrap();
        give(&one, &writer).unwrap();
        let given = take(&other).unwrap();
        UnixStream::from(given).write_all(b"through ").unwrap();
        writer.write_all(b"both").unwrap();
        drop(writer);
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "through both");
    }
}
