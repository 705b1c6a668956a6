//! Credentials that the caller has a source of.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Credentials, Login};
use crate::box_future::BoxFuture;
use crate::net::open_error::OpenError;
use crate::net::transport::Address;
use crate::policy::Units;
use crate::race::{caught, timeout};

impl Login {
    /// The credentials for `server`; a provider is given no more than this time.
    ///
    /// # Errors
    ///
    /// [`OpenError::NoCredentials`], when the provider fails, panics or takes too long.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the provider's.
    pub(crate) async fn credentials(
        &self,
        server: &Address,
        within: Duration,
    ) -> Result<Cow<'_, Credentials>, OpenError> {
        match self {
            Self::Fixed(credentials) => Ok(Cow::Borrowed(credentials)),
            Self::Provided(provider) => provider.ask(server, within).await.map(Cow::Owned),
        }
    }
}

type Provide =
    dyn Fn(String, Duration) -> BoxFuture<'static, Result<Credentials, OpenError>> + Send + Sync;

/// The caller's own source of credentials.
#[derive(Clone)]
pub struct Provider {
    provide: Arc<Provide>,
}

impl Provider {
    pub(crate) fn new<F, A, E>(provide: F) -> Self
    where
        F: Fn(String) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        let provide = Arc::new(provide);
        let provide = move |server, within| {
            let provide = Arc::clone(&provide);
            // It is called when it is polled: what it does by itself may panic, too.
            let asked = async move { provide(server).await.map_err(|error| error.to_string()) };
            guarded(Box::pin(asked), within)
        };
        Self { provide: Arc::new(provide) }
    }

    fn ask(
        &self,
        server: &Address,
        within: Duration,
    ) -> BoxFuture<'static, Result<Credentials, OpenError>> {
        (self.provide)(server.to_string(), within)
    }
}

/// What a provider answers within this time.
fn guarded(
    asked: BoxFuture<'static, Result<Credentials, String>>,
    within: Duration,
) -> BoxFuture<'static, Result<Credentials, OpenError>> {
    Box::pin(async move {
        let what = match timeout(within, caught(asked)).await {
            Ok(Some(Ok(credentials))) => return Ok(credentials),
            Ok(Some(Err(why))) => format!("failed: {why}"),
            Ok(None) => "panicked".to_owned(),
            Err(_) => format!("gave none within {}", Units(within)),
        };
        Err(OpenError::NoCredentials(what.into()))
    })
}

/// Two are the same where one is a copy of the other.
impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.provide, &other.provide)
    }
}

impl Eq for Provider {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}
