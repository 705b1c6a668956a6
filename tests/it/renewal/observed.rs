//! What an observer may do while leases are renewed.

#![allow(clippy::disallowed_methods, reason = "an observer blocks its runtime")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use leasehold::{Event, Guard, Locker};
use leasehold_resp::Frame;

use super::SHORT;
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, Command, STUCK, ScriptedServer, soon};

/// `EVALSHA digest 1 lock owner ttl stamp`.
fn is_extend(command: &Command) -> bool {
    command.is(&["EVALSHA"]) && command.word(2) == "1" && command.words.len() == 7
}

/// Says yes to everything but an extension.
fn server(to_extend: fn(&Command) -> Action) -> ScriptedServer {
    ScriptedServer::start(move |command| {
        greeting(command).unwrap_or_else(|| match is_extend(command) {
            true => to_extend(command),
            false => Action::Reply(command.stamp()),
        })
    })
}

/// The lease ends between its renewal and its repair, and its guard is dropped at the news of it.
#[test]
fn an_observer_may_drop_the_guard_that_it_hears_is_lost() {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let servers = [
                server(|command| Action::stamped(command, [Frame::Integer(0)])),
                server(|command| Action::Reply(command.stamp())),
                server(|_| Action::Silence),
            ];
            let held: Arc<Mutex<Option<Guard>>> = Arc::default();
            let dropped = Arc::clone(&held);
            let observer = move |event: &Event<'_>| match event {
                // Stands still until its lease has ended.
                Event::Renewed { .. } => std::thread::sleep(SHORT * 2),
                Event::Lost { .. } => drop(dropped.lock().unwrap().take()),
                _ => {}
            };
            let urls = servers.iter().map(ScriptedServer::url);
            let builder = Locker::builder().nodes(urls).ttl(SHORT).restart_quarantine(false);
            let builder = builder.command_timeout(STUCK);
            let locker = builder.observer(observer).connect().await.unwrap();
            *held.lock().unwrap() = Some(locker.lock("a").await.unwrap());
            let extends = |commands: &[Command]| commands.iter().any(is_extend);
            for server in &servers {
                soon("it is renewed", server.until(extends)).await;
            }
            // The one that decides comes when the others have been counted.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let commands = servers[2].commands();
            let extend = commands.iter().find(|command| is_extend(command)).unwrap();
            servers[2].send(extend.connection, format!(":{}\r\n", extend.word(6)));
            let is_dropped = || held.lock().unwrap().is_none();
            leasehold_testing::eventually("the guard is dropped", is_dropped).await;
            assert_eq!(locker.stats().lost(), 1);
        });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(2 * STUCK).expect("nobody waits for a lock of its own");
}
