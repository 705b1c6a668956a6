//! What `leasehold run` does as a shell's job: in pipelines, stopped, killed. Whatever becomes of it,
//! nothing of a command runs beside that of the lock's next holder.

use std::time::Duration;

use crate::command::{code, end, ended_by, is_free, leasehold, output, stderr};
use crate::processes::{Directory, is_gone, is_stopped, parent, send};
use crate::terminal::Terminal;
use leasehold_testing::{RedisServer, eventually, soon};
use nix::sys::signal::SigSet;
use tokio::process::{Child, Command};
use tokio::time::timeout;

const CTRL_C: &str = "\x03";
const CTRL_Q: &str = "\x11";
const CTRL_S: &str = "\x13";
const CTRL_Z: &str = "\x1a";

/// Works until it is told to stop, and notes each piece of work; so does a daemon that it starts. A shell
/// that waits for a child by `vfork` does not stop if the child does so before its `exec`: with `&` it forks.
const WORK: &str = "work() { while [ ! -e stop ]; do echo $1 >> log; sleep 0.02 & wait; done; }";

/// A server, and a directory with the work of those that hold the lock `job` there for 3 s at a time.
struct Scene {
    server: RedisServer,
    directory: Directory,
}

impl Scene {
    fn new() -> Self {
        let (server, directory) = (RedisServer::start(), Directory::new());
        directory.write("first.sh", &format!("{WORK}; echo $$ > first; work first"));
        let daemon = format!("{WORK}; echo $$ > daemon; trap '' HUP TERM; work first");
        directory.write("daemon.sh", &daemon);
        directory.write("family.sh", "(setsid sh daemon.sh &); sh first.sh; true");
        directory.write("second.sh", "echo second >> log; sleep 0.1; echo second >> log");
        Self { server, directory }
    }

    fn run(&self, words: &[&str]) -> Command {
        let mut command = leasehold(&self.server.url(), &["run", "--ttl", "3s"]);
        command.args(words).current_dir(&self.directory.0);
        command
    }

    /// A command with a daemon of its own.
    async fn family(&self) -> Child {
        let front = self.run(&["job", "sh", "family.sh"]).spawn().unwrap();
        eventually("both work", || self.id("first").and(self.id("daemon")).is_some()).await;
        front
    }

    /// A waiter for the lock, which works once as the second.
    async fn second(&self) -> Child {
        let second = self.run(&["job", "sh", "second.sh"]).spawn().unwrap();
        eventually("it waits", || self.server.cli_text(&["EXISTS", "{job}:queue"]) == "1").await;
        second
    }

    fn shell(&self) -> Terminal {
        let line = format!(
            "cd {}; PS1='bash$ ' exec bash --norc --noprofile -i",
            self.directory.0.display()
        );
        Terminal::run(&self.server.url(), &line)
    }

    fn id(&self, name: &str) -> Option<String> {
        self.directory.number(name)
    }

    /// Waits until the lease has been renewed for longer than its first TTL, counted in renewals: there
    /// are three to a TTL.
    async fn outlives_its_ttl(&self) {
        let (mut before, mut renewals) = (0, 0);
        eventually("it is renewed", || {
            let left = self.server.cli_text(&["PTTL", "job"]).parse().unwrap();
            renewals += i32::from(left > before);
            before = left;
            renewals > 5
        })
        .await;
    }

    async fn stop(&self, second: Child) {
        self.directory.write("stop", "");
        assert_eq!(code(&end(second).await), 0);
        self.assert_never_both();
    }

    /// All of the first's work is before all of the second's.
    fn assert_never_both(&self) {
        let log = self.directory.lines("log");
        let first = log.iter().take_while(|line| *line == "first").count();
        assert!(first > 0 && log.len() == first + 2, "{:?}", &log[first.saturating_sub(2)..]);
        assert!(log[first..].iter().all(|line| line == "second"), "{log:?}");
    }

    fn is_all_gone(&self) -> bool {
        ["first", "daemon"].iter().all(|name| is_gone(&self.id(name).unwrap()))
    }
}

fn id(front: &Child) -> String {
    front.id().unwrap().to_string()
}

/// The process that has the lease, which started the shell that started the command.
fn keeper(scene: &Scene) -> String {
    let family = parent(&scene.id("first").unwrap()).unwrap();
    parent(&family).unwrap()
}

#[tokio::test]
async fn a_pipeline_into_a_pager_stops_nobody_and_keeps_its_lock() {
    let scene = Scene::new();
    let lines = "i=0; while [ $i -lt 500 ]; do echo line-$i; i=$((i+1)); done; . ./first.sh";
    scene.directory.write("job.sh", lines);
    let mut shell = scene.shell();
    shell.press("TERM=xterm leasehold run job --ttl 3 -- sh job.sh | less\n");
    shell.shows("line-10").await;
    eventually("it works", || scene.id("first").is_some()).await;
    let second = scene.second().await;
    // The pager answers its keys.
    shell.press("   ");
    shell.shows("line-60").await;
    scene.outlives_its_ttl().await;
    assert!(!is_stopped(&scene.id("first").unwrap()));
    scene.stop(second).await;
    shell.press("q");
    shell.press("exit 0\n");
    assert_eq!(shell.end().await.0, 0);
}

/// What is said of what the command left does not fit into the pipe, which nobody reads for longer than the lease lasts.
#[tokio::test]
async fn a_pipe_that_is_full_keeps_nobody_from_renewing_and_releasing() {
    let server = RedisServer::start();
    let line = "sleep 60 & head -c 65536 /dev/zero";
    let words = format!("{} run --ttl 1s -c '{line}' job 2>&1", env!("CARGO_BIN_EXE_leasehold"));
    let mut shell = Command::new("sh");
    shell.env("LEASEHOLD_URL", server.url()).args(["-c", &words]).kill_on_drop(true);
    let running = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("it holds the lock", || !is_free(&server, "job")).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    eventually("it gives the lock back", || is_free(&server, "job")).await;
    let done = end(running).await;
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(code(&done) == 0 && said.contains("ending what the command left running"), "{said}");
}

/// Neither while it waits for the lock, nor while it has it, nor in the end.
#[tokio::test]
async fn a_pipe_that_nobody_ever_reads_keeps_nobody_from_a_lock_and_its_end() {
    let scene = Scene::new();
    let (_locker, guard) = crate::command::hold(&scene.server, "job").await;
    let words = format!(
        "head -c 65536 /dev/zero; exec {} run --ttl 1s job sh first.sh 2>&1",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let mut shell = Command::new("sh");
    shell.env("LEASEHOLD_URL", scene.server.url()).args(["-c", &words]).kill_on_drop(true);
    shell.current_dir(&scene.directory.0).stdout(std::process::Stdio::piped());
    let mut running = shell.spawn().unwrap();
    eventually("it waits", || scene.server.cli_text(&["EXISTS", "{job}:queue"]) == "1").await;
    guard.release().await.unwrap();
    eventually("it works", || scene.id("first").is_some()).await;
    scene.outlives_its_ttl().await;
    scene.directory.write("stop", "");
    let ended = soon("its end", running.wait()).await.unwrap();
    assert!(ended.success() && is_free(&scene.server, "job"), "{ended}");
}

#[tokio::test]
async fn a_terminal_that_stands_still_keeps_nobody_from_a_lock() {
    let scene = Scene::new();
    let (_locker, guard) = crate::command::hold(&scene.server, "job").await;
    let line =
        format!("cd {}; leasehold run --ttl 1s job sh first.sh", scene.directory.0.display());
    let mut shell = Terminal::run(&scene.server.url(), &line);
    shell.shows("(0 s)").await;
    shell.press(CTRL_S);
    // It would say how long it has waited.
    tokio::time::sleep(Duration::from_secs(2)).await;
    guard.release().await.unwrap();
    eventually("it works", || scene.id("first").is_some()).await;
    scene.outlives_its_ttl().await;
    scene.directory.write("stop", "");
    eventually("it gives the lock back", || is_free(&scene.server, "job")).await;
    shell.press(CTRL_Q);
    let (code, shown) = shell.end().await;
    assert!(code == 0 && shown.ends_with("\r\n"), "{shown:?}");
}

/// Presses Ctrl-Z until the command is stopped: the shell takes the key itself before the job is in front.
async fn stop(shell: &mut Terminal, command: &str) {
    for press in 0.. {
        assert!(press < 50, "it is stopped");
        shell.press(CTRL_Z);
        let stopped = eventually("it is stopped", || is_stopped(command));
        if timeout(Duration::from_secs(1), stopped).await.is_ok() {
            return;
        }
    }
}

#[tokio::test]
async fn a_job_that_is_stopped_keeps_its_lock_and_goes_on() {
    let scene = Scene::new();
    let mut shell = scene.shell();
    shell.press("leasehold run job --ttl 3 -- sh first.sh\n");
    eventually("it works", || scene.id("first").is_some()).await;
    let second = scene.second().await;
    let command = scene.id("first").unwrap();
    let done = || scene.directory.lines("log").len();
    for again in ["bg", "fg"] {
        stop(&mut shell, &command).await;
        shell.shows("Stopped").await;
        let before = done();
        scene.outlives_its_ttl().await;
        assert_eq!(done(), before);
        shell.press(&format!("{again}\n"));
        eventually("it goes on", || done() > before + 5).await;
        if again == "bg" {
            let before = shell.shown().matches("leasehold run job").count();
            shell.press("fg\n");
            eventually("it is in front", || {
                shell.shown().matches("leasehold run job").count() > before
            })
            .await;
        }
    }
    scene.stop(second).await;
    shell.press("exit $?\n");
    assert_eq!(shell.end().await.0, 0);
}

/// Its user types something else meanwhile.
#[tokio::test]
async fn a_job_in_the_background_says_once_that_it_waits() {
    let scene = Scene::new();
    let (_locker, guard) = crate::command::hold(&scene.server, "job").await;
    let mut shell = scene.shell();
    shell.press("leasehold run job -- sh -c 'echo do''ne' &\n");
    shell.shows("waiting for job").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shell.shown().matches("waiting for job").count(), 1, "{}", shell.shown());
    shell.press("fg\n");
    guard.release().await.unwrap();
    shell.shows("done").await;
    shell.press("exit 0\n");
    assert_eq!(shell.end().await.0, 0);
}

#[tokio::test]
async fn an_interrupt_reaches_the_command_once_and_ends_a_loop() {
    let scene = Scene::new();
    let script = "n=; trap 'n=1; echo interru''pted' INT; echo beg''un
        until [ $n ]; do sleep 0.01; done; sleep 0.1; trap - INT; kill -INT $$";
    scene.directory.write("job.sh", script);
    let mut shell = scene.shell();
    shell.press("for i in 1 2 3; do leasehold run job -- sh job.sh; done\n");
    shell.shows("begun").await;
    shell.press(CTRL_C);
    eventually("the shell asks again", || shell.shown().matches("bash$ ").count() == 2).await;
    shell.press("echo co''de $?; exit 0\n");
    let (_, shown) = shell.end().await;
    assert!(shown.contains("code 130"), "{shown:?}");
    assert_eq!(shown.matches("begun").count(), 1, "{shown:?}");
    assert_eq!(shown.matches("interrupted").count(), 1, "{shown:?}");
    eventually("it is given back", || is_free(&scene.server, "job")).await;
}

/// As of `ssh -t host leasehold run ..`: the kernel tells the first process of a session alone, which is no shell there.
#[tokio::test]
async fn a_terminal_that_is_gone_ends_the_command() {
    let scene = Scene::new();
    let directory = scene.directory.0.display();
    let line = format!("cd {directory}; exec leasehold run job sh first.sh");
    let terminal = Terminal::run(&scene.server.url(), &line);
    eventually("it works", || scene.id("first").is_some()).await;
    drop(terminal);
    let command = scene.id("first").unwrap();
    eventually("it has ended", || is_gone(&command)).await;
    eventually("it is given back", || is_free(&scene.server, "job")).await;
}

#[tokio::test]
async fn a_killed_run_takes_the_command_along() {
    let scene = Scene::new();
    let front = scene.family().await;
    let second = scene.second().await;
    send("KILL", &[&id(&front)]);
    assert_eq!(ended_by(&end(front).await), 9);
    let second = end(second).await;
    assert_eq!(code(&second), 0, "{second:?}");
    assert!(scene.is_all_gone());
    scene.assert_never_both();
}

#[tokio::test]
async fn a_keeper_that_is_killed_takes_the_command_along() {
    let scene = Scene::new();
    let front = scene.family().await;
    let second = scene.second().await;
    send("KILL", &[&keeper(&scene)]);
    let front = end(front).await;
    assert_eq!(code(&front), 75, "{front:?}");
    assert!(stderr(&front).contains("the process that renews the lease has ended"), "{front:?}");
    assert!(scene.is_all_gone());
    assert_eq!(code(&end(second).await), 0);
    scene.assert_never_both();
}

/// There was no lease to lose, and no command.
#[tokio::test]
async fn a_keeper_that_is_killed_while_it_waits_is_a_failure_of_the_system() {
    let scene = Scene::new();
    let (_locker, _guard) = crate::command::hold(&scene.server, "job").await;
    let front = scene.second().await;
    let id = id(&front);
    let keeper = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    send("KILL", &[keeper.trim()]);
    let front = end(front).await;
    assert_eq!(code(&front), 71, "{front:?}");
    assert!(stderr(&front).contains("no lock was taken: "), "{front:?}");
}

/// The command alone: what it started is nobody's then.
#[tokio::test]
async fn where_all_of_it_is_killed_at_once_the_command_ends_too() {
    let scene = Scene::new();
    let front = scene.run(&["job", "sh", "first.sh"]).spawn().unwrap();
    eventually("it works", || scene.id("first").is_some()).await;
    let command = scene.id("first").unwrap();
    send("KILL", &[&id(&front), &parent(&command).unwrap()]);
    eventually("it has ended", || is_gone(&command)).await;
    assert_eq!(ended_by(&end(front).await), 9);
}

#[tokio::test]
async fn a_stopped_run_keeps_the_lock_and_the_command_goes_on() {
    let scene = Scene::new();
    let front = scene.family().await;
    let second = scene.second().await;
    let front_id = id(&front);
    send("STOP", &[&front_id]);
    eventually("it is stopped", || is_stopped(&front_id)).await;
    scene.outlives_its_ttl().await;
    assert!(!scene.directory.lines("log").contains(&"second".to_owned()));
    scene.directory.write("stop", "");
    // The lock is given back, though the waiter does not know.
    assert_eq!(code(&end(second).await), 0);
    send("CONT", &[&front_id]);
    assert_eq!(code(&end(front).await), 0);
    scene.assert_never_both();
}

#[tokio::test]
async fn a_keeper_that_is_stopped_has_its_command_ended_before_its_lease() {
    let scene = Scene::new();
    let front = scene.family().await;
    let second = scene.second().await;
    send("STOP", &[&keeper(&scene)]);
    let front = end(front).await;
    assert_eq!(code(&front), 75, "{front:?}");
    assert!(stderr(&front).contains("the process that renews the lease does not answer"));
    assert!(scene.is_all_gone());
    assert_eq!(code(&end(second).await), 0);
    scene.assert_never_both();
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_before_the_release_or_is_left_on_demand() {
    let scene = Scene::new();
    let daemon = format!("{WORK}; echo $$ > daemon; work first");
    scene.directory.write("daemon.sh", &daemon);
    scene
        .directory
        .write("leave.sh", "(setsid sh daemon.sh &); until [ -s daemon ]; do :; done; exit 3");
    let words = ["job", "sh", "leave.sh"];
    let left = output(scene.run(&words).stdout(std::process::Stdio::null())).await;
    assert_eq!(code(&left), 3, "{left:?}");
    let named = format!("{} (sh)", scene.id("daemon").unwrap());
    let said = stderr(&left);
    assert!(said.contains(&named) && said.contains("-o lets it run on"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(is_gone(&scene.id("daemon").unwrap()) && is_free(&scene.server, "job"));

    scene.directory.remove("daemon");
    let mut running = scene.run(&["-o"]);
    let null = std::process::Stdio::null;
    let running = running.args(words).stdout(null()).stderr(null()).spawn().unwrap();
    assert_eq!(code(&end(running).await), 3);
    assert!(!is_gone(&scene.id("daemon").unwrap()) && is_free(&scene.server, "job"));
    scene.directory.write("stop", "");
    let daemon = scene.id("daemon").unwrap();
    eventually("it stops", || is_gone(&daemon)).await;
}

/// As nohup(1) does, and shells without job control for what they start in the background.
#[tokio::test]
async fn signals_that_its_caller_ignores_end_no_wait() {
    let scene = Scene::new();
    let (_locker, guard) = crate::command::hold(&scene.server, "job").await;
    let mut shell = Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_leasehold");
    let line = format!("trap '' HUP; exec {binary} run job -- sh -c 'kill -HUP $$; echo alive'");
    shell.args(["-c", &line]).env("LEASEHOLD_URL", scene.server.url()).kill_on_drop(true);
    shell.stdout(std::process::Stdio::piped());
    let waiting = shell.spawn().unwrap();
    eventually("it waits", || scene.server.cli_text(&["EXISTS", "{job}:queue"]) == "1").await;
    send("HUP", &[&id(&waiting)]);
    guard.release().await.unwrap();
    let done = end(waiting).await;
    assert_eq!((code(&done), crate::command::stdout(&done)), (0, "alive\n".to_owned()));
}

/// As programs do that read their signals themselves, with all that they start.
#[tokio::test]
async fn signals_that_its_caller_blocks_keep_nobody_from_the_commands_end() {
    let scene = Scene::new();
    SigSet::all().thread_block().unwrap();
    let run = scene.run(&["job", "--", "sh", "-c", "exit 7"]).spawn();
    SigSet::all().thread_unblock().unwrap();
    assert_eq!(code(&end(run.unwrap()).await), 7);
}
