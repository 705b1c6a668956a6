//! Credentials for servers: of a URL, or of a provider at each connection.
//!
//! A password is in no `Debug`, no `Display` and no error of this module.

use std::fmt;
use std::time::Duration;

#[cfg(any(test, feature = "credentials"))]
use self::provider::Provider;

/// A user and a password, as a provider of credentials returns them:
/// [`Builder::credentials`](crate::Builder::credentials). `Debug` does not show the password.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::Credentials;
///
/// let token = "what the identity provider signed";
/// let credentials = Credentials::new("billing", token).valid_for(Duration::from_secs(15 * 60));
/// assert!(!format!("{credentials:?}").contains("signed"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// None for the server's default user.
    pub(crate) user: Option<String>,
    pub(crate) password: Secret,
    pub(crate) valid_for: Option<Duration>,
}

impl Credentials {
    /// Credentials of an ACL user.
    #[cfg(any(test, feature = "credentials"))]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..Self::password(password) }
    }

    /// Credentials of the server's default user, which logs in without a name.
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: Secret::new(password), valid_for: None }
    }

    /// Sets how long these credentials are valid, from before the provider was called. After 5/8 to 6/8
    /// of that time the provider is called again, and the connection logs in again. By default a login
    /// lasts as long as its connection.
    #[cfg(any(test, feature = "credentials"))]
    #[must_use]
    pub fn valid_for(self, time: Duration) -> Self {
        Self { valid_for: Some(time), ..self }
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` from being shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, to be sent and never to be shown.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Where credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// The same at each connection.
    Fixed(Credentials),
    /// Requested at each connection.
    #[cfg(any(test, feature = "credentials"))]
    Provided(Provider),
}

impl Login {
    /// The user's name, if known before connecting.
    pub(super) fn user(&self) -> Option<&str> {
        self.fixed()?.user.as_deref()
    }

    /// The credentials, if known before connecting.
    pub(crate) fn fixed(&self) -> Option<&Credentials> {
        match self {
            Self::Fixed(credentials) => Some(credentials),
            #[cfg(any(test, feature = "credentials"))]
            Self::Provided(_) => None,
        }
    }
}

/// Credentials from a source of the caller.
#[cfg(any(test, feature = "credentials"))]
pub(crate) mod provider {
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
        /// The credentials for `server`, for which a provider has at most `within`.
        ///
        /// # Errors
        ///
        /// [`OpenError::NoCredentials`], when the provider fails, panics or takes too long.
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

    type Provide = dyn Fn(String, Duration) -> BoxFuture<'static, Result<Credentials, OpenError>>
        + Send
        + Sync;

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
                // Called inside the future, so that its own panic is caught too.
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

    /// Waits for a provider's answer, at most this time.
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

    /// Clones of one provider are equal.
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
}
