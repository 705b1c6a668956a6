use super::*;
use crate::support::{STUCK, soon};

#[tokio::test]
async fn a_name_without_an_address_says_so() {
    let error = soon("an error", candidates("nobody.invalid", 1, STUCK)).await.unwrap_err();
    assert!(error.to_string().starts_with("the host name was not resolved: "), "{error}");
}
