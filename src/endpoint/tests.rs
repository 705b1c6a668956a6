use super::*;
use crate::net::transport::Address;

mod properties;

/// A server's URL.
fn parse(url: &str) -> Result<Endpoint, InvalidEndpoint> {
    match Target::parse(url)? {
        Target::Server(endpoint) => Ok(endpoint),
        other => panic!("{url} is no server's: {other:?}"),
    }
}

fn tcp(host: &str, port: u16) -> Endpoint {
    let address = Address::Tcp { host: host.into(), port };
    Endpoint { address, login: None, database: 0, tls: false }
}

#[cfg(unix)]
fn unix(path: &str) -> Endpoint {
    let address = Address::Unix { path: path.into() };
    Endpoint { address, login: None, database: 0, tls: false }
}

fn login(endpoint: Endpoint, user: Option<&str>, password: &str) -> Endpoint {
    let credentials = credentials(user, password);
    Endpoint { login: Some(Login::Fixed(credentials)), ..endpoint }
}

fn credentials(user: Option<&str>, password: &str) -> Credentials {
    user.map_or(Credentials::password(password), |user| Credentials::new(user, password))
}

fn tls(endpoint: Endpoint) -> Endpoint {
    Endpoint { tls: true, ..endpoint }
}

fn cluster<const N: usize>(seeds: [Endpoint; N]) -> Target {
    Target::Cluster(Vec::from(seeds).into())
}

/// A target with the service "main".
fn sentinel<const N: usize>(sentinels: [Endpoint; N]) -> Target {
    let template = Endpoint { login: None, ..sentinels[0].clone() };
    Target::Sentinel(Watched { sentinels: sentinels.into(), service: "main".into(), template })
}

fn database(endpoint: Endpoint, database: u32) -> Endpoint {
    Endpoint { database, ..endpoint }
}

/// With the forms that redis-rs #152 and #517 had trouble with.
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
        ("rediss://h", tls(tcp("h", 6379))),
        ("Rediss://:pw@[::1]:7/2", tls(database(login(tcp("::1", 7), None, "pw"), 2))),
    ];
    for (url, endpoint) in table {
        assert_eq!(parse(url), Ok(endpoint), "{url}");
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
        assert_eq!(parse(url), Ok(endpoint), "{url}");
    }
}

#[test]
fn right_cluster_urls_give_their_seeds() {
    let user = |seed| login(seed, Some("u,@"), "p,@");
    let table = [
        ("redis-cluster://h", cluster([tcp("h", 6379)])),
        ("Redis-Cluster://h/", cluster([tcp("h", 6379)])),
        ("redis-cluster://h/0", cluster([tcp("h", 6379)])),
        ("redis-cluster://h?db=0", cluster([tcp("h", 6379)])),
        ("redis-cluster://h:1,h:2,i", cluster([tcp("h", 1), tcp("h", 2), tcp("i", 6379)])),
        ("redis-cluster://[::1],[::2]:7,h", {
            cluster([tcp("::1", 6379), tcp("::2", 7), tcp("h", 6379)])
        }),
        ("redis-cluster://u%2C%40:p%2C%40@h,i:1/0", {
            cluster([user(tcp("h", 6379)), user(tcp("i", 1))])
        }),
        ("rediss-cluster://:pw@h,i", {
            cluster([tcp("h", 6379), tcp("i", 6379)].map(|seed| tls(login(seed, None, "pw"))))
        }),
    ];
    for (url, target) in table {
        assert_eq!(Target::parse(url), Ok(target), "{url}");
    }
}

#[test]
fn right_sentinel_urls_give_the_sentinels_and_the_service() {
    let table = [
        ("redis-sentinel://h/main", sentinel([tcp("h", 26379)])),
        ("REDIS-SENTINEL://h:1,i,[::1],[::1]:2/m%61in", {
            sentinel([tcp("h", 1), tcp("i", 26379), tcp("::1", 26379), tcp("::1", 2)])
        }),
    ];
    for (url, target) in table {
        assert_eq!(Target::parse(url), Ok(target), "{url}");
    }
    let sentinels = vec![tls(tcp("h", 26379)), tls(tcp("i", 7))];
    let template = database(login(sentinels[0].clone(), Some("u"), "p:w"), 3);
    let all = Target::Sentinel(Watched { sentinels, service: "a/b@é".into(), template });
    assert_eq!(Target::parse("rediss-sentinel://u:p:w@h,i:7/a%2Fb%40%C3%A9?db=3"), Ok(all));
}

#[test]
fn valkeys_name_in_the_scheme_means_what_rediss_name_means() {
    let table = [
        ("valkey://u:pw@h:1/2", "redis://u:pw@h:1/2"),
        ("VALKEYS://:pw@h", "rediss://:pw@h"),
        ("valkey+unix://u:pw@/r.sock?db=3", "redis+unix://u:pw@/r.sock?db=3"),
        ("Valkey-Cluster://u:pw@h,i:2", "redis-cluster://u:pw@h,i:2"),
        ("valkeys-cluster://h", "rediss-cluster://h"),
        ("valkey-sentinel://h,i/main?db=1", "redis-sentinel://h,i/main?db=1"),
        ("valkeys-sentinel://h/main", "rediss-sentinel://h/main"),
        ("valkey://h/x", "redis://h/x"),
        ("valkey-sentinel://h", "redis-sentinel://h"),
    ];
    for (alias, url) in table {
        assert_eq!(Target::parse(alias), Target::parse(url), "{alias}");
    }
    for unknown in ["valkeyss://h", "valkeys+unix:///r.sock", "valkey-redis://h", "redisvalkey://h"]
    {
        let error = Target::parse(unknown).unwrap_err();
        let scheme = unknown.split_once(':').unwrap().0;
        assert_eq!(error, InvalidEndpoint::UnknownScheme(scheme.into()));
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
        ("rediss", E::MissingScheme),
        ("rediss+unix:///r.sock", E::UnknownScheme("rediss+unix".into())),
        ("rediss://u:p/w@h", E::UnencodedDelimiter),
        ("rediss://h/x", E::Database),
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
        ("redis://h,i", E::UnexpectedList),
        ("redis://h:1,i:2", E::UnexpectedList),
        ("rediss://user:pass,word", E::UnexpectedList),
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
        ("redis://h/1//", E::Database),
        ("redis://h//1", E::Database),
        ("redis://h?db=", E::Database),
        ("redis://h?db=4294967296", E::Database),
        ("redis://h?db=1&db=1", E::DatabaseTwice),
        ("redis://h/1?db=1", E::DatabaseTwice),
        ("redis://h?", E::UnknownParameter),
        ("redis://h?timeouts=1", E::UnknownParameter),
        ("redis://h?db=1&database=1", E::DatabaseTwice),
        ("redis://[fe80::1%]", E::Ipv6),
        ("redis://[fe80::1%25]", E::Ipv6),
        ("redis://[h%25eth0]", E::Ipv6),
        ("redis://[fe80::1%25eth0/1]", E::Ipv6),
        ("redis://h?db=1&", E::UnknownParameter),
    ];
    for (url, error) in table {
        assert_eq!(parse(url), Err(error), "{url}");
    }
}

#[test]
fn what_other_clients_write_is_understood_or_refused_by_name() {
    for (url, understood) in [
        ("redis://h/0/", "redis://h/0"),
        ("redis://h/2/?protocol=3", "redis://h/2"),
        ("redis://h?database=2", "redis://h?db=2"),
        ("redis://h?protocol=resp3&db=2", "redis://h/2"),
        ("redis://[fe80::1%25eth0]:7", "redis://[fe80::1%eth0]:7"),
        ("redis-cluster://h,[fe80::1%25br-lan.1]/0/", "redis-cluster://h,[fe80::1%br-lan.1]"),
        ("redis-sentinel://h/main?protocol=3", "redis-sentinel://h/main"),
    ] {
        assert!(Target::parse(url).is_ok(), "{url}");
        assert_eq!(Target::parse(url), Target::parse(understood), "{url}");
    }
    for (url, host) in [
        ("redis://[fe80::1%25eth0]", "fe80::1%eth0"),
        ("redis://[fe80::1%2525]", "fe80::1%25"),
        ("redis://[fe80::1%2525x]", "fe80::1%25x"),
    ] {
        let zone = parse(url).unwrap();
        assert_eq!(zone, tcp(host, 6379));
        assert_eq!(Target::parse(&zone.to_string()), Ok(Target::Server(zone)));
    }
    for (query, cure) in [
        ("timeout=5s", "Builder::command_timeout"),
        ("db=1&ssl_cert_reqs=none", "rediss://"),
        ("protocol=2", "protocol=3"),
        ("password=hunter2", "user:password@"),
        ("sentinelMasterId=main", "redis-sentinel://host:port/service"),
    ] {
        let error = parse(&format!("redis://h?{query}")).unwrap_err().to_string();
        let name = query.split(['=', '&']).find(|name| error.contains(*name));
        assert!(name.is_some() && error.contains(cure), "{query}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn wrong_lists_are_refused_for_what_is_wrong_with_them() {
    use InvalidEndpoint as E;
    let table = [
        ("", E::MissingHost),
        (":pw@", E::MissingHost),
        (":1", E::MissingHost),
        ("h,:1", E::MissingHost),
        (",h", E::GapInList),
        ("h,", E::GapInList),
        ("h,,i", E::GapInList),
        (",", E::GapInList),
        ("h,h", E::HostTwice),
        ("h:1,i,H:1", E::HostTwice),
        ("[::1]:1,[0:0::1]:1", E::HostTwice),
        ("h,:pw@i", E::AmbiguousLogin),
        ("h:1,u:pw@i", E::AmbiguousLogin),
        ("u:pw@h,u:pw@i", E::AmbiguousLogin),
        (":p@w@h", E::AmbiguousLogin),
        (":p,w@h", E::AmbiguousLogin),
        ("user@h,i", E::MissingPassword),
        (":@h,i", E::MissingPassword),
        ("u%:pw@h,i", E::Escape(Part::User)),
        (":%ff@h,i", E::NotUtf8(Part::Password)),
        ("h,a%62", E::Host),
        ("[::1,::2]", E::Ipv6),
        ("h,::1", E::Ipv6),
        ("[::1],[::2]3", E::Port),
        ("h:1,i:x", E::Port),
        ("user:pass,word", E::Port),
    ];
    for (list, error) in table {
        for (scheme, service) in [
            ("redis-cluster", ""),
            ("rediss-cluster", "/0"),
            ("redis-sentinel", "/main"),
            ("rediss-sentinel", "/main?db=1"),
        ] {
            let url = format!("{scheme}://{list}{service}");
            assert_eq!(Target::parse(&url), Err(error.clone()), "{url}");
        }
    }
}

#[test]
fn what_stands_behind_a_list_is_refused_for_what_is_wrong_with_it() {
    use InvalidEndpoint as E;
    let table = [
        ("redis-cluster://h/x", E::Database),
        ("redis-cluster://h/0?db=0", E::DatabaseTwice),
        ("redis-cluster://h?seed=i", E::UnknownParameter),
        ("redis-cluster://:p/w@h,i", E::UnencodedDelimiter),
        ("redis-cluster://h#", E::Fragment),
        ("redis-sentinel://h", E::MissingService),
        ("redis-sentinel://h/", E::MissingService),
        ("rediss-sentinel://h,i?db=1", E::MissingService),
        ("redis-sentinel://h/main/1", E::SlashInService),
        ("redis-sentinel://h//main", E::SlashInService),
        ("redis-sentinel://h/main/", E::SlashInService),
        ("redis-sentinel://h/ma%in", E::Escape(Part::Service)),
        ("redis-sentinel://h/main%ff", E::NotUtf8(Part::Service)),
        ("redis-sentinel://h/main?db=x", E::Database),
        ("redis-sentinel://h/main?db=1&db=1", E::DatabaseTwice),
        ("redis-sentinel://h/main?service=main", E::UnknownParameter),
        ("redis-sentinel://:p/w@h/main", E::UnencodedDelimiter),
        ("redis-sentinel://h/m@in", E::UnencodedDelimiter),
        ("redis-sentinel://h/main#1", E::Fragment),
    ];
    for (url, error) in table {
        assert_eq!(Target::parse(url), Err(error), "{url}");
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
        assert_eq!(parse(url), Err(error), "{url}");
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
        ("valkeyx://h", "valkeyx:// is unknown"),
        ("valkeyx://h", "with valkey in the place of redis"),
        ("redis://h,i", "redis-cluster://host:port,host:port"),
        ("redis-cluster://h,", "host:port,host:port"),
        ("redis-cluster://h,h", "the same host and port more than once"),
        ("redis-cluster://h,:pw@i", "user:password@host:port,host:port"),
        ("redis-sentinel://h", "redis-sentinel://host:port,host:port/service"),
        ("redis-sentinel://h/main/1", "/service?db=2"),
        ("redis-sentinel://h/%", "the URL's service name has a '%'"),
    ];
    for (url, fragment) in table {
        let message = Target::parse(url).expect_err(url).to_string();
        assert!(message.contains(fragment), "{url}: {message}");
    }
}

#[test]
fn a_wrong_scheme_is_answered_with_all_the_right_ones() {
    for url in ["h:6379", "http://h", "u:p://h"] {
        let message = Target::parse(url).expect_err(url).to_string();
        for scheme in ["redis", "rediss", "redis+unix"].into_iter().chain([
            "redis-cluster",
            "rediss-cluster",
            "redis-sentinel",
            "rediss-sentinel",
        ]) {
            assert!(message.contains(&format!(" {scheme}://")), "{scheme}: {message}");
        }
    }
}

#[test]
fn a_target_is_shown_as_a_url_without_its_password() {
    let table = [
        ("redis://h", "redis://h:6379/0"),
        ("redis://:pw@h:1/2", "redis://h:1/2"),
        ("redis://a%40b:pw@[::1]", "redis://a%40b@[::1]:6379/0"),
        #[cfg(unix)]
        ("unix://u:pw@/a%20b?db=3", "redis+unix://u@/a%20b?db=3"),
        ("rediss://:pw@h", "rediss://h:6379/0"),
        ("redis-cluster://:pw@h", "redis-cluster://h:6379"),
        ("redis-cluster://:pw@h,i/7", "redis-cluster://h:6379,i:6379/7"),
        ("rediss-cluster://a%40b:pw@h,[::1]:7/0", "rediss-cluster://a%40b@h:6379,[::1]:7"),
        ("redis-sentinel://u:pw@h/m", "redis-sentinel://u@h:26379/m?db=0"),
        ("rediss-sentinel://[::1],h:7/a%2fb?db=1", {
            "rediss-sentinel://[::1]:26379,h:7/a%2Fb?db=1"
        }),
    ];
    for (url, shown) in table {
        assert_eq!(Target::parse(url).expect(url).to_string(), shown);
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
        assert_eq!(parse(url).expect(url).address.to_string(), shown);
    }
}

#[test]
fn a_secret_shows_nothing() {
    let secret = Secret::new("hunter2");
    assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
    assert_eq!(secret.expose(), "hunter2");
}
