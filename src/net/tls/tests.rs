use super::*;
use crate::clock;
use crate::net::connection::{Connection, Settings};
use crate::net::limits::OF_LOCKS;
use crate::net::proof::Expected;
use crate::net::pushes::Listeners;
use crate::net::transport;
use crate::support::{Authority, RedisServer, STUCK, binary, soon, unique_name};

fn complaint(tls: &Tls) -> String {
    tls.client().map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_with_a_ca_is_said_and_where() {
    let authority = Authority::new();
    assert!(Tls::new().ca_pem(authority.pem()).client().is_ok());
    assert!(complaint(&Tls::new().ca_pem("")).contains("the CA has no usable certificate"));
    let twice = Tls::new().ca_pem(authority.pem()).ca_pem("no PEM");
    assert!(complaint(&twice).contains("none was found"), "{}", complaint(&twice));
    let torn = authority.pem().replace("-----END", "-----");
    assert!(complaint(&Tls::new().ca_pem(torn)).contains("malformed"));

    let path = std::env::temp_dir().join(unique_name("leasehold-ca"));
    let from_file = Tls::new().ca_file(&path);
    let text = complaint(&from_file);
    assert!(
        text.contains(&path.display().to_string()) && text.contains("cannot be read"),
        "{text}"
    );
    std::fs::write(&path, "nothing").unwrap();
    let text = complaint(&from_file);
    std::fs::write(&path, authority.pem()).unwrap();
    let made = from_file.client();
    std::fs::remove_file(&path).unwrap();
    assert!(
        text.contains(&path.display().to_string()) && text.contains("none was found"),
        "{text}"
    );
    assert!(made.is_ok());
}

#[test]
fn a_key_is_never_shown() {
    let authority = Authority::new();
    let (ours, other) = (authority.issue(&["a"]), authority.issue(&["b"]));
    let with = |chain: &str, key: &str| {
        let tls = Tls::new().ca_pem(authority.pem());
        tls.client_certificate_pem(chain, key)
    };
    assert!(with(&ours.chain, &ours.key).client().is_ok());
    let body = ours.key.lines().nth(1).unwrap();
    let torn = ours.key.replace("-----END", "END");
    let garbled = ours.key.replace(body, &format!("{body}?"));
    let wrong = [
        (with(&ours.chain, ""), "private key is not in PEM form"),
        (with(&ours.chain, &torn), "private key is not in PEM form"),
        (with(&ours.chain, &garbled), "private key is not in PEM form"),
        (with(&ours.chain, &other.key), "cannot be used with its private key"),
        (with(&ours.key, &ours.key), "the client certificate has no usable certificate"),
        (with(&garbled, &ours.key), "the client certificate has no usable certificate"),
        (with("", &ours.key), "the client certificate has no usable certificate"),
    ];
    for (tls, expected) in wrong {
        let text = complaint(&tls);
        assert!(text.contains(expected), "{text}");
        for shown in [text, format!("{tls:?}")] {
            assert!(!ours.key.lines().any(|line| shown.contains(line)), "{shown}");
        }
    }
}

#[test]
fn a_server_is_expected_under_its_host_unless_another_name_is_given() {
    let authority = Authority::new();
    let tls = Tls::new().ca_pem(authority.pem());
    let client = tls.client().unwrap();
    for host in ["redis.internal", "127.0.0.1", "::1"] {
        assert_eq!(client.name_for(host).unwrap().to_str(), host);
    }
    assert!(matches!(client.name_for("a b"), Err(TlsFault::ServerName(_))));
    let named = tls.clone().server_name("other").client().unwrap();
    assert_eq!(named.name_for("redis.internal").unwrap().to_str(), "other");
    assert!(complaint(&tls.server_name("a b")).contains("\"a b\""));
}

/// The kernel takes a little of the first record, the flusher waits in the middle of it, and what
/// is sent in the end is one stream.
#[tokio::test]
async fn a_server_that_stood_still_in_the_middle_of_a_record_gets_the_rest_of_it() {
    const COMMANDS: usize = 40;
    if binary::lacks(binary::has_tls(), "TLS") {
        return;
    }
    for write_inline in [0, COMMANDS] {
        let authority = Authority::new();
        let server = RedisServer::builder().tls(&authority.issue(&["127.0.0.1"])).start();
        let url = server.tls_url("127.0.0.1");
        let address = url.strip_prefix("rediss://").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        // All that is sent below is many times as much.
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, 4096).unwrap();
        let client = Tls::new().ca_pem(authority.pem()).client().unwrap();
        let (read, write) =
            client.agree("127.0.0.1", stream, clock::now().after(STUCK)).await.unwrap();
        let settings = Settings { command_timeout: STUCK, write_inline, limits: OF_LOCKS };
        let (read, write) = (transport::ReadHalf::Tls(read), transport::WriteHalf::Tls(write));
        let connection = Connection::over(read, write, settings, Listeners::default());

        server.stop();
        let texts: Vec<String> = (0..COMMANDS).map(|n| format!("{n}-").repeat(4_000)).collect();
        let mut replies = Vec::new();
        for text in &texts {
            let command: &[&[u8]] = &[b"ECHO", text.as_bytes()];
            replies.extend(
                connection.send_batch(&[command], Expected::Anything, clock::now(), STUCK).unwrap(),
            );
            tokio::task::yield_now().await;
        }
        server.cont();
        for (reply, text) in replies.into_iter().zip(&texts) {
            let frame = soon("a reply", reply).await.unwrap();
            assert!(frame == leasehold_resp::Frame::Bulk(text.clone().into()));
        }
    }
}
