//! Properties of every target and every text.

use std::net::Ipv6Addr;

use proptest::prelude::*;

use crate::endpoint::*;
use crate::net::transport::Address;

/// [`Target`]'s `Display` with the password put back in.
fn url_with_password(target: &Target) -> String {
    let shown = target.to_string();
    let Some(credentials) = target.credentials() else {
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

fn hosts() -> impl Strategy<Value = Address> {
    let host = prop_oneof![
        "[a-z0-9._-]{1,20}",
        any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<Ipv6Addr>().prop_map(|ip| ip.to_string()),
        (any::<Ipv6Addr>(), "(25)?[a-z0-9._-]{1,5}").prop_map(|(ip, zone)| format!("{ip}%{zone}")),
    ];
    (host, 1..=u16::MAX).prop_map(|(host, port)| Address::Tcp { host, port })
}

fn lists() -> impl Strategy<Value = Vec<Address>> {
    proptest::collection::vec(hosts(), 1..5).prop_map(|mut list| {
        list.sort_by_key(Address::to_string);
        list.dedup();
        list
    })
}

#[cfg(unix)]
fn sockets() -> impl Strategy<Value = Address> {
    proptest::collection::vec(1..=u8::MAX, 1..20).prop_map(|bytes| {
        use std::os::unix::ffi::OsStringExt;
        let path = [b"/s".to_vec(), bytes].concat();
        Address::Unix { path: std::ffi::OsString::from_vec(path).into() }
    })
}

fn targets() -> impl Strategy<Value = Target> {
    let server = (hosts(), logins(), any::<u32>(), any::<bool>())
        .prop_map(|(address, credentials, database, tls)| Endpoint {
            address,
            login: credentials.map(Login::Fixed),
            database,
            tls,
        })
        .prop_map(Target::Server);
    #[cfg(unix)]
    let server = prop_oneof![
        server,
        (sockets(), logins(), any::<u32>())
            .prop_map(|(address, credentials, database)| Endpoint {
                address,
                login: credentials.map(Login::Fixed),
                database,
                tls: false
            })
            .prop_map(Target::Server),
    ];
    let cluster = (lists(), logins(), any::<u32>(), any::<bool>()).prop_map(
        |(list, credentials, database, tls)| {
            let login = credentials.map(Login::Fixed);
            let seed = |address| Endpoint { address, login: login.clone(), database, tls };
            Target::Cluster(list.into_iter().map(seed).collect::<Vec<_>>().into())
        },
    );
    let sentinel = (lists(), ".{1,10}", logins(), any::<u32>(), any::<bool>()).prop_map(
        |(list, service, credentials, database, tls)| {
            let (address, login) = (list[0].clone(), credentials.map(Login::Fixed));
            let template = Endpoint { address, login, database, tls };
            let sentinel = |address| Endpoint { address, login: None, database: 0, tls };
            let sentinels = list.into_iter().map(sentinel).collect();
            Target::Sentinel(Watched { sentinels, service, template })
        },
    );
    prop_oneof![server, cluster, sentinel]
}

fn logins() -> impl Strategy<Value = Option<Credentials>> {
    let login = (proptest::option::of(".{1,10}"), ".{1,10}")
        .prop_map(|(user, password)| Credentials { user, ..Credentials::password(password) });
    proptest::option::of(login)
}

proptest! {
    #[test]
    fn a_shown_target_with_its_password_parses_to_itself(target in targets()) {
        prop_assert_eq!(Target::parse(&url_with_password(&target)), Ok(target));
    }

    /// Among delimiters, escapes, other passwords, or nothing.
    #[test]
    fn a_password_is_never_shown(
        scheme in "(redis|valkey)s?(-cluster|-sentinel)?|(redis|valkey)\\+unix|[a-z]{0,3}",
        user in "[a-zA-Z0-9%@:/?#,\\[\\]\\PC]{0,6}",
        before in "[a-z0-9%@:/?#,\\[\\]&=.\\PC]{0,6}",
        after in "[a-z0-9%@:/?#,\\[\\]&=.\\PC]{0,6}",
        rest in "[a-z0-9%@:/?#,\\[\\]&=.\\PC]{0,12}",
    ) {
        const SECRET: &str = "HUNTER-TWO";
        let url = format!("{scheme}://{user}:{before}{SECRET}{after}@{rest}");
        let shown = match Target::parse(&url) {
            Ok(target) => format!("{target} {target:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains(SECRET), "{} gives {}", url, shown);
    }

    #[test]
    fn no_text_makes_it_panic(
        url in "((redis|valkey)s?(-cluster|-sentinel)?|unix)://[\\[\\]:@/?#&=%,a-f0-9\\PC]{0,30}",
    ) {
        Target::parse(&url).ok();
    }
}
