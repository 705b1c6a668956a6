//! What TLS can object to, each in its own words.
//!
//! In reads and writes a fault is the inner error of an [`io::Error`].

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use tokio_rustls::rustls;

use rustls::{AlertDescription, CertificateError, pki_types::ServerName};

use crate::policy::Units;

/// Why TLS failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TlsFault {
    /// The server's certificate has expired.
    #[error("the server's TLS certificate has expired, or this machine's clock is wrong")]
    Expired,
    /// The server's certificate is not valid yet.
    #[error("the server's TLS certificate is not valid yet, or this machine's clock is wrong")]
    NotYetValid,
    /// The server's certificate is for other hosts.
    #[error("the server's TLS certificate is not for \"{host}\" but for {presented}")]
    WrongHost {
        /// The expected host.
        host: String,
        /// The names in the certificate.
        presented: String,
    },
    /// No trusted CA has issued the certificate.
    #[error(
        "the server's TLS certificate was issued by an unknown CA: \
         give the CA's certificate (Tls::ca_file, --ca)"
    )]
    UnknownIssuer,
    /// The certificate is wrong in another way.
    #[error("the server's TLS certificate is not acceptable: {0}")]
    Certificate(String),
    /// The server wants a client certificate, or another one.
    #[error("the server refused the client certificate, or wants one (its TLS alert: {0})")]
    ClientCertificate(String),
    /// The server ended the handshake for another reason.
    #[error("the server refused this client's TLS (its alert: {0})")]
    Refused(String),
    /// The server's bytes are not TLS.
    #[error("the server's answer is not TLS: give its TLS port, or use redis://")]
    NotTls,
    /// The server sent nothing for this long.
    #[error("the server did not answer the TLS handshake within {:.1}: give its TLS port", Units(*.0))]
    Silent(Duration),
    /// A certificate cannot be for this host.
    #[error("\"{0}\" is no valid host name for TLS")]
    ServerName(String),
    /// Anything else.
    #[error("TLS failed: {0}")]
    Other(String),
}

impl TlsFault {
    /// The fault inside a socket's error, if any.
    pub fn inside(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// A handshake's error, with its meaning.
    pub(super) fn of_handshake(error: &io::Error) -> io::Error {
        if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
            return Self::from(error).into();
        }
        io::Error::new(error.kind(), format!("the TLS handshake broke off: {error}"))
    }

    /// A stream's error, with the fault if TLS has caused it.
    #[cfg(feature = "streams")]
    pub(in crate::net) fn explained(error: io::Error) -> io::Error {
        let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        cause.map(|cause| Self::from(cause).into()).unwrap_or(error)
    }

    /// Whether one side refused the other's certificate.
    pub fn is_about_identity(&self) -> bool {
        matches!(
            self,
            Self::Expired
                | Self::NotYetValid
                | Self::WrongHost { .. }
                | Self::UnknownIssuer
                | Self::Certificate(_)
                | Self::ClientCertificate(_)
        )
    }
}

impl From<TlsFault> for io::Error {
    fn from(fault: TlsFault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}

impl From<&rustls::Error> for TlsFault {
    fn from(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => of_certificate(error),
            rustls::Error::AlertReceived(alert) if is_about_ours(*alert) => {
                Self::ClientCertificate(name_of(*alert))
            }
            rustls::Error::AlertReceived(alert) => Self::Refused(name_of(*alert)),
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            other => Self::Other(shown(other)),
        }
    }
}

fn of_certificate(error: &CertificateError) -> TlsFault {
    use CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } => TlsFault::Expired,
        E::NotValidYet | E::NotValidYetContext { .. } => TlsFault::NotYetValid,
        E::UnknownIssuer => TlsFault::UnknownIssuer,
        E::NotValidForNameContext { expected, presented } => {
            TlsFault::WrongHost { host: spelled(expected), presented: listed(presented) }
        }
        other => TlsFault::Certificate(shown(other)),
    }
}

/// Escaped, as some of these errors have the server's text in them.
fn shown(error: &impl std::fmt::Display) -> String {
    error.to_string().escape_debug().to_string()
}

fn spelled(name: &ServerName<'_>) -> String {
    name.to_str().into_owned()
}

/// Some of the certificate's names; they are the server's own text.
fn listed(presented: &[String]) -> String {
    const SHOWN: usize = 4;
    let mut text = String::new();
    for name in presented.iter().take(SHOWN) {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}", name.escape_debug());
    }
    match presented.len() {
        0 => "no host at all".to_owned(),
        count if count > SHOWN => format!("{text} and {} more", count - SHOWN),
        _ => text,
    }
}

/// Whether a server refuses a client's certificate by this alert. (Some with TLS 1.2 send `handshake_failure` if there
/// is none, which can mean anything.)
fn is_about_ours(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

fn name_of(alert: AlertDescription) -> String {
    alert.as_str().map_or_else(|| format!("{alert:?}"), str::to_owned)
}
