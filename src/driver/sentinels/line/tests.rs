//! Names of Sentinels that have several addresses.

use std::net::TcpListener;

use super::*;
use crate::driver::sentinels::sentinel::CHANNELS;
use crate::net::transport::{Address, names};
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
    let opening = Opening { connector: None, tls: None, within: AN_HOUR, dead_after: AN_HOUR };
    let address = Address::Tcp { host: "sentinels.frozen".to_owned(), port: 1 };
    let endpoint = Endpoint { address, login: None, database: 0, tls: false };
    let line = soon("it is connected to", opening.open(endpoint, &CHANNELS)).await.unwrap();
    assert!(!line.is_mute, "{:?}", line.refused);
}
