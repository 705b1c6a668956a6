//! The feature `credentials` is off: a URL says how connections log in, and no login ends.

use std::future::{Ready, ready};
use std::time::Duration;

use super::servers::login_of;
use crate::endpoint::{Endpoint, Login as Source};
use crate::machine::Login;
use crate::net::open_error::OpenError;

pub(super) fn log_in(endpoint: &Endpoint, _: Duration) -> Ready<Result<Login, OpenError>> {
    ready(Ok(login_of(endpoint, endpoint.login.as_ref().and_then(Source::fixed))))
}
