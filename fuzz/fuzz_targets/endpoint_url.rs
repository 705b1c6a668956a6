//! The endpoint URL: parsing returns, never shows a password, and what it accepts it accepts again
//! from its own display.

#![no_main]

use leasehold::fuzzing::endpoint::Endpoint;
use libfuzzer_sys::fuzz_target;

/// Cannot be part of any message of ours by chance.
const SECRET: &str = "zQ9vXk";

fuzz_target!(|text: &str| {
    if let Ok(endpoint) = Endpoint::parse(text) {
        let shown = endpoint.to_string();
        if endpoint.credentials.is_none() {
            assert_eq!(Endpoint::parse(&shown).as_ref(), Ok(&endpoint), "{shown}");
        }
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("redis", text));
    let with_secret = format!("{scheme}://user:{SECRET}@{rest}");
    let shown = match Endpoint::parse(&with_secret) {
        Ok(endpoint) => format!("{endpoint} {endpoint:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!shown.contains(SECRET) || text.contains(SECRET), "{shown}");
});
