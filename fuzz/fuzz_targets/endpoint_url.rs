//! The endpoint URL: parsing returns, never shows a password, and accepts its own display again.

#![no_main]

use leasehold::fuzzing::endpoint::Target;
use libfuzzer_sys::fuzz_target;

/// Cannot be part of any message of ours by chance.
const SECRET: &str = "zQ9vXk";

fuzz_target!(|text: &str| {
    if let Ok(target) = Target::parse(text) {
        let shown = target.to_string();
        if target.credentials().is_none() {
            assert_eq!(Target::parse(&shown).as_ref(), Ok(&target), "{shown}");
        }
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("redis", text));
    let with_secret = format!("{scheme}://user:{SECRET}@{rest}");
    let shown = match Target::parse(&with_secret) {
        Ok(target) => format!("{target} {target:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!shown.contains(SECRET) || text.contains(SECRET), "{shown}");
});
