use super::*;

#[test]
fn a_token_is_the_same_number_in_a_bigint() {
    for number in [0, 1, 1_763_740_000_000_000, (1 << 53) - 1] {
        let token = FencingToken::new(number);
        assert_eq!(u64::try_from(i64::from(token)), Ok(u64::from(token)));
    }
}

#[cfg(feature = "serde")]
#[test]
fn a_token_is_a_number_in_json() {
    let token = FencingToken::new(1_763_740_000_000_000);
    let text = serde_json::to_string(&token).unwrap();
    assert_eq!(text, "1763740000000000");
    assert_eq!(serde_json::from_str::<FencingToken>(&text).unwrap(), token);
    assert!(serde_json::from_str::<FencingToken>("-1").is_err());
}
