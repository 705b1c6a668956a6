//! The adapter for the lock that tutorials warn of: `SET NX PX`, and a `DEL` that asks for no owner. The
//! checker has to find it faulty, or it sees too little.

use std::io::{BufRead, Result};

use leasehold_testing::Client;

pub(crate) fn serve(url: &str) {
    println!("ready naive (SET NX PX, DEL without a look at the owner)");
    let mut held = String::new();
    let mut client = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["acquire", name, ttl] => {
                name.clone_into(&mut held);
                let reply = call(&mut client, url, &["SET", name, "me", "NX", "PX", ttl]);
                reply.map(|reply| if reply.contains("OK") { "granted" } else { "refused" })
            }
            ["held"] => Ok("held"),
            ["release"] => call(&mut client, url, &["DEL", &held]).map(|_| "released"),
            _ => panic!("what is {line:?}?"),
        };
        println!("{}", answer.unwrap_or("refused"));
    }
}

/// Over a new connection, if the last one has failed.
fn call(client: &mut Option<Client>, url: &str, words: &[&str]) -> Result<String> {
    let address = url.trim_start_matches("redis://").parse().expect("an address and a port");
    if client.is_none() {
        *client = Some(Client::connect(address, None)?);
    }
    let reply = client.as_mut().expect("it was set").try_call(words);
    if reply.is_err() {
        *client = None;
    }
    reply.map(|reply| format!("{reply:?}"))
}
