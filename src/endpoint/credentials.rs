//! What a server lets a client in by: what a URL says, or what a provider says at each connection.
//!
//! A password is in no `Debug`, no `Display` and no error of this module.

#[cfg(any(test, feature = "credentials"))]
pub(crate) mod provider;

use std::fmt;
use std::time::Duration;

#[cfg(any(test, feature = "credentials"))]
use self::provider::Provider;

/// A user and a password, as a provider of credentials gives them:
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
    /// None is the server's default user.
    pub(crate) user: Option<String>,
    pub(crate) password: Secret,
    pub(crate) valid_for: Option<Duration>,
}

impl Credentials {
    /// Credentials of an ACL user.
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
    #[must_use]
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
    /// Asked for at each connection.
    #[cfg(any(test, feature = "credentials"))]
    Provided(Provider),
}

impl Login {
    /// The user's name, where it is known beforehand.
    pub(super) fn user(&self) -> Option<&str> {
        self.fixed()?.user.as_deref()
    }

    /// Those that are known beforehand.
    pub(crate) fn fixed(&self) -> Option<&Credentials> {
        match self {
            Self::Fixed(credentials) => Some(credentials),
            #[cfg(any(test, feature = "credentials"))]
            Self::Provided(_) => None,
        }
    }
}
