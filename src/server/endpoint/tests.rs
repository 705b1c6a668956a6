use proptest::prelude::*;

use super::*;

fn tcp(host: &str, port: u16) -> Endpoint {
    let address = Address::Tcp { host: host.into(), port };
    Endpoint { address, credentials: None, database: 0 }
}

#[cfg(unix)]
fn unix(path: &str) -> Endpoint {
    let address = Address::Unix { path: path.into() };
    Endpoint { address, credentials: None, database: 0 }
}

fn login(endpoint: Endpoint, user: Option<&str>, password: &str) -> Endpoint {
    let credentials =
        Credentials { user: user.map(str::to_owned), password: Secret::new(password) };
    Endpoint { credentials: Some(credentials), ..endpoint }
}

fn database(endpoint: Endpoint, database: u32) -> Endpoint {
    Endpoint { database, ..endpoint }
}

/// The forms that redis-rs #152 and #517 had trouble with are among these.
#[test]
fn right_urls_give_their_endpoint() {
    let table = [
        ("redis://localhost", tcp("localhost", 6379)),
        ("redis://localhost/", tcp("localhost", 6379)),
        ("REDIS://localhost:7000", tcp("localhost", 7000)),
        ("redis://127.0.0.1:65535", tcp("127.0.0.1", 65535)),
        ("redis://[::1]", tcp("::1", 6379)),
        ("redis://[2001:db8::7]:1/5", database(tcp("2001:db8::7", 1), 5)),
        ("redis://my_redis.internal:6380/15", database(tcp("my_redis.internal", 6380), 15)),
        ("redis://h?db=3", database(tcp("h", 6379), 3)),
        ("redis://h/?db=4294967295", database(tcp("h", 6379), u32::MAX)),
        ("redis://:pw@h", login(tcp("h", 6379), None, "pw")),
        ("redis://user:pw@h:1/2", database(login(tcp("h", 1), Some("user"), "pw"), 2)),
        ("redis://:p:w@[::1]:1", login(tcp("::1", 1), None, "p:w")),
        ("redis://u:p@ss@h", login(tcp("h", 6379), Some("u"), "p@ss")),
        ("redis://a%40b:p%2Fw%3f%23%25@h", login(tcp("h", 6379), Some("a@b"), "p/w?#%")),
        ("redis://:%C3%A9%00@h", login(tcp("h", 6379), None, "é\0")),
    ];
    for (url, endpoint) in table {
        assert_eq!(Endpoint::parse(url), Ok(endpoint), "{url}");
    }
}

#[cfg(unix)]
#[test]
fn right_unix_urls_give_their_endpoint() {
    let table = [
        ("redis+unix:///run/redis.sock", unix("/run/redis.sock")),
        ("unix:///run/redis.sock?db=2", database(unix("/run/redis.sock"), 2)),
        ("redis+unix://:pw@/r.sock", login(unix("/r.sock"), None, "pw")),
        ("redis+unix://u:p%2Fw@/r.sock", login(unix("/r.sock"), Some("u"), "p/w")),
        ("redis+unix:///a%20b/%3F%40.sock", unix("/a b/?@.sock")),
    ];
    for (url, endpoint) in table {
        assert_eq!(Endpoint::parse(url), Ok(endpoint), "{url}");
    }
}

#[test]
fn wrong_urls_are_refused_for_what_is_wrong_with_them() {
    use InvalidEndpoint as E;
    let table = [
        ("", E::MissingScheme),
        ("localhost:6379", E::MissingScheme),
        ("redis:/localhost", E::MissingScheme),
        ("http://h", E::UnknownScheme("http".into())),
        ("://h", E::MalformedScheme),
        ("user:pass://h", E::MalformedScheme),
        ("rediss://u:p/w@h", E::TlsUnsupported),
        ("redis-cluster://h", E::ClusterUnsupported),
        ("Redis-Sentinel://h", E::SentinelUnsupported),
        ("redis://h\0", E::Unprintable),
        ("redis://:pw@h\n", E::Unprintable),
        ("redis://:p w@h", E::Unprintable),
        ("redis://:p/w@h", E::UnencodedDelimiter),
        ("redis://:p?w@h", E::UnencodedDelimiter),
        ("redis://:p#w@h", E::UnencodedDelimiter),
        ("redis://:p@x/w@h", E::UnencodedDelimiter),
        ("redis://h/0#x", E::Fragment),
        ("redis://user@h", E::MissingPassword),
        ("redis://user:@h", E::MissingPassword),
        ("redis://:@h", E::MissingPassword),
        ("redis://@h", E::MissingPassword),
        ("redis://us%4er%:pw@h", E::Escape(Part::User)),
        ("redis://:pw%@h", E::Escape(Part::Password)),
        ("redis://:pw%+1@h", E::Escape(Part::Password)),
        ("redis://:pw%0g@h", E::Escape(Part::Password)),
        ("redis://%ff:pw@h", E::NotUtf8(Part::User)),
        ("redis://:%ff@h", E::NotUtf8(Part::Password)),
        ("redis://", E::MissingHost),
        ("redis:///1", E::MissingHost),
        ("redis://:6379", E::MissingHost),
        ("redis://:pw@", E::MissingHost),
        ("redis://h%41", E::Host),
        ("redis://a[b]", E::Host),
        ("redis://::1", E::Ipv6),
        ("redis://[::1", E::Ipv6),
        ("redis://[localhost]:1", E::Ipv6),
        ("redis://[]", E::Ipv6),
        ("redis://[::1]1", E::Port),
        ("redis://h:", E::Port),
        ("redis://h:0", E::Port),
        ("redis://h:65536", E::Port),
        ("redis://h:+1", E::Port),
        ("redis://user:password", E::Port),
        ("redis://h/x", E::Database),
        ("redis://h/-1", E::Database),
        ("redis://h/1/", E::Database),
        ("redis://h?db=", E::Database),
        ("redis://h?db=4294967296", E::Database),
        ("redis://h?db=1&db=1", E::DatabaseTwice),
        ("redis://h/1?db=1", E::DatabaseTwice),
        ("redis://h?", E::UnknownParameter),
        ("redis://h?timeout=1", E::UnknownParameter),
        ("redis://h?db=1&", E::UnknownParameter),
    ];
    for (url, error) in table {
        assert_eq!(Endpoint::parse(url), Err(error), "{url}");
    }
}

#[cfg(unix)]
#[test]
fn wrong_unix_urls_are_refused_for_what_is_wrong_with_them() {
    use InvalidEndpoint as E;
    let table = [
        ("redis+unix://", E::MissingSocketPath),
        ("unix:///", E::MissingSocketPath),
        ("unix://:pw@?db=1", E::MissingSocketPath),
        ("redis+unix://run/redis.sock", E::HostBeforeSocketPath),
        ("redis+unix://:p/w/run/redis.sock", E::HostBeforeSocketPath),
        ("redis+unix://:p@x/run/redis.sock", E::HostBeforeSocketPath),
        ("redis+unix://:p@/w@/run/redis.sock", E::UnencodedDelimiter),
        ("redis+unix:///a%00b", E::NulInSocketPath),
        ("redis+unix:///a%b", E::Escape(Part::SocketPath)),
        ("redis+unix:///a?path=b", E::UnknownParameter),
        ("redis+unix://user@/a", E::MissingPassword),
    ];
    for (url, error) in table {
        assert_eq!(Endpoint::parse(url), Err(error), "{url}");
    }
}

#[test]
fn messages_name_the_part_and_show_a_right_one() {
    let table = [
        ("redis://user@h", "a password is missing"),
        ("redis://:p/w@h", "%2F"),
        ("redis://::1", "[::1]"),
        ("redis://h:x", "from 1 to 65535"),
        ("redis://:a%zz@h", "the URL's password has a '%' without two hexadecimal digits"),
        ("valkey://h", "valkey:// is unknown"),
    ];
    for (url, fragment) in table {
        let message = Endpoint::parse(url).expect_err(url).to_string();
        assert!(message.contains(fragment), "{url}: {message}");
    }
}

#[test]
fn an_endpoint_is_shown_as_a_url_without_its_password() {
    let table = [
        ("redis://h", "redis://h:6379/0"),
        ("redis://:pw@h:1/2", "redis://h:1/2"),
        ("redis://a%40b:pw@[::1]", "redis://a%40b@[::1]:6379/0"),
        #[cfg(unix)]
        ("unix://u:pw@/a%20b?db=3", "redis+unix://u@/a%20b?db=3"),
    ];
    for (url, shown) in table {
        assert_eq!(Endpoint::parse(url).expect(url).to_string(), shown);
    }
}

#[test]
fn an_address_is_shown_as_one_dials_it() {
    let table = [
        ("redis://h", "h:6379"),
        ("redis://[::1]:7", "[::1]:7"),
        #[cfg(unix)]
        ("unix:///a%20b", "/a b"),
    ];
    for (url, shown) in table {
        assert_eq!(Endpoint::parse(url).expect(url).address.to_string(), shown);
    }
}

#[test]
fn a_secret_shows_nothing() {
    let secret = Secret::new("hunter2");
    assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
    assert_eq!(secret.expose(), "hunter2");
}

/// [`Endpoint`]'s `Display` with the password put back in.
fn url_with_password(endpoint: &Endpoint) -> String {
    let shown = endpoint.to_string();
    let Some(credentials) = &endpoint.credentials else {
        return shown;
    };
    let (scheme, rest) = shown.split_once("://").expect("a URL");
    let behind_user = if credentials.user.is_some() {
        rest.split_once('@').expect("the user is shown").1
    } else {
        rest
    };
    let user = percent::encode(credentials.user.as_deref().unwrap_or_default().as_bytes());
    let password = percent::encode(credentials.password.expose().as_bytes());
    format!("{scheme}://{user}:{password}@{behind_user}")
}

fn addresses() -> impl Strategy<Value = Address> {
    let host = prop_oneof![
        "[a-z0-9._-]{1,20}",
        any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<Ipv6Addr>().prop_map(|ip| ip.to_string()),
    ];
    let tcp = (host, 1..=u16::MAX).prop_map(|(host, port)| Address::Tcp { host, port });
    #[cfg(unix)]
    let tcp = prop_oneof![
        tcp,
        proptest::collection::vec(1..=u8::MAX, 1..20).prop_map(|bytes| {
            use std::os::unix::ffi::OsStringExt;
            let path = [b"/s".to_vec(), bytes].concat();
            Address::Unix { path: std::ffi::OsString::from_vec(path).into() }
        }),
    ];
    tcp
}

fn credentials() -> impl Strategy<Value = Credentials> {
    (proptest::option::of(".{1,10}"), ".{1,10}")
        .prop_map(|(user, password)| Credentials { user, password: Secret::new(password) })
}

proptest! {
    #[test]
    fn a_shown_endpoint_with_its_password_parses_to_itself(
        address in addresses(),
        credentials in proptest::option::of(credentials()),
        database: u32,
    ) {
        let endpoint = Endpoint { address, credentials, database };
        prop_assert_eq!(Endpoint::parse(&url_with_password(&endpoint)), Ok(endpoint));
    }

    /// Whatever stands around it: delimiters, escapes, other passwords, nothing.
    #[test]
    fn a_password_is_never_shown(
        scheme in "redis|redis\\+unix|rediss|[a-z]{0,3}",
        user in "[a-zA-Z0-9%@:/?#\\[\\]\\PC]{0,6}",
        before in "[a-z0-9%@:/?#\\[\\]&=.\\PC]{0,6}",
        after in "[a-z0-9%@:/?#\\[\\]&=.\\PC]{0,6}",
        rest in "[a-z0-9%@:/?#\\[\\]&=.\\PC]{0,12}",
    ) {
        const SECRET: &str = "HUNTER-TWO";
        let url = format!("{scheme}://{user}:{before}{SECRET}{after}@{rest}");
        let shown = match Endpoint::parse(&url) {
            Ok(endpoint) => format!("{endpoint} {endpoint:?} {}", endpoint.address),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains(SECRET), "{} gives {}", url, shown);
    }

    #[test]
    fn no_text_makes_it_panic(url in "(redis|unix)://[\\[\\]:@/?#&=%a-f0-9\\PC]{0,30}") {
        Endpoint::parse(&url).ok();
    }
}
