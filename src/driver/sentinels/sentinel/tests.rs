//! Names of Sentinels that have several addresses.

use std::net::TcpListener;

use super::*;
use crate::driver::tests::parts;
use crate::net::transport::names;
use crate::support::scripted::greeting;
use crate::support::{ScriptedServer, soon};

const AN_HOUR: Duration = Duration::from_secs(3600);

/// The kernel of a process that is stopped still accepts connections for it.
#[tokio::test]
async fn a_frozen_sentinel_at_the_first_address_of_a_name_is_passed_over() {
    let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
    let sentinel = ScriptedServer::start(|command| greeting(command).unwrap());
    let addresses = vec![frozen.local_addr().unwrap(), sentinel.address()];
    names::give("sentinels.frozen", addresses);
    let address = Address::Tcp { host: "sentinels.frozen".to_owned(), port: 1 };
    let endpoint = Endpoint { address, login: None, database: 0, tls: false };
    let (machine, servers) = parts([endpoint.clone()], None, [AN_HOUR; 2]);
    let way = Way { servers: servers.into(), settings: *machine.settings() };
    let interview = soon("it is connected to", way.meet(endpoint)).await.ok().unwrap();
    assert!(!is_mute(&interview.answers), "{:?}", interview.answers);
}
