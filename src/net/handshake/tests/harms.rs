//! Safety rule 13 in a handshake: one reply is lost or comes twice, at any place.

use super::*;
use crate::policy::mutants::{self, Mutant};

#[derive(Clone, Copy, Debug)]
enum Harmed {
    Lost,
    Twice,
}

/// A handshake of which one reply is lost or comes twice. The server refuses what old ones do not know, or users have
/// no right to.
async fn harmed(harm: Option<Harmed>, number: usize, refuses: bool) -> Result<(), String> {
    let server = ScriptedServer::start(move |command| {
        let answer = match command.name().as_str() {
            "CLIENT" if refuses && command.is(&["CLIENT", "SETINFO"]) => Action::error("NOPERM no"),
            "INFO" if refuses && command.word(1) == "memory" => Action::error("ERR unknown"),
            "INFO" => Action::bulk(command.word(1)),
            _ => greeting(command).unwrap(),
        };
        match harm.filter(|_| command.index == number) {
            Some(Harmed::Lost) => Action::Silence,
            Some(Harmed::Twice) => Action::Sequence(vec![answer.clone(), answer]),
            None => answer,
        }
    });
    // What comes is judged piece by piece.
    let proxy = FaultProxy::start(server.address());
    proxy.to_client().set(Fault::Dribble(32));
    let address = Address::Tcp { host: "127.0.0.1".into(), port: proxy.port() };
    let hello = Hello {
        database: 1,
        info: &["replication"],
        info_if_allowed: &["memory", "server"],
        tracking: true,
        ..HELLO
    };
    let within = Duration::from_millis(if harm.is_some() { 100 } else { 20_000 });
    let opening = connect(&address, None, hello, SETTINGS, Listeners::default(), within);
    match soon("it ends", opening).await {
        Ok(Opened { connection, info, .. }) => {
            let sections = if refuses { "replicationserver" } else { "replicationmemoryserver" };
            let is_right = info == sections && connection.is_tracking() && connection.is_resp3();
            let is_refused = connection.refused().is_some();
            if is_right && !is_refused { Ok(()) } else { Err(format!("opened with {info}")) }
        }
        Err(OpenError::Broken(_) | OpenError::Timeout(_) | OpenError::ScriptsHeldUp(_))
            if harm.is_some() =>
        {
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Replies of a handshake: those to 10 steps, and 2 seals.
const REPLIES: usize = 12;

async fn first_wrong() -> Result<(), String> {
    for refuses in [false, true] {
        harmed(None, 0, refuses).await?;
        for (harm, number) in [Harmed::Lost, Harmed::Twice]
            .into_iter()
            .flat_map(|harm| (0..REPLIES).map(move |number| (harm, number)))
        {
            let wrong = |wrong| format!("{harm:?} {number}: {wrong}");
            harmed(Some(harm), number, refuses).await.map_err(wrong)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_reply_that_is_lost_or_doubled_is_never_taken_for_the_answer_to_another_step() {
    assert_eq!(first_wrong().await, Ok(()));
    for mutant in [Mutant::SealNotWaitedFor, Mutant::ErrorNotProved] {
        mutants::set(Some(mutant));
        let wrong = first_wrong().await;
        mutants::set(None);
        assert!(wrong.is_err(), "{mutant:?} was not noticed");
    }
}
