use super::*;
use crate::support::{Authority, unique_name};

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
