//! TLS by rustls, with ring given explicitly: the trusted roots, our own certificate, and the handshake.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsConnector, rustls};

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;

mod fault;
mod halves;
mod trust;

pub use fault::TlsFault;
pub(crate) use halves::{ReadHalf, WriteHalf};

use crate::clock;
use crate::policy::Moment;
pub(crate) use trust::InvalidTls;
use trust::{Identity, Pem};

/// A replacing connection has this many times as long for its handshake: when all clients reconnect at once, a server
/// needs long for their handshakes, and each one given up is repeated.
const PATIENCE: u32 = 15;
/// Maximum servers whose last session is kept.
const SESSIONS_MAX: usize = 64;

/// TLS settings for `rediss://` URLs: the CAs to trust, and a client certificate.
///
/// A server must present a certificate for the host in its URL (a name or an IP address), issued
/// by a trusted CA: one of the platform's, unless others are given. The library speaks TLS 1.2 and 1.3, and resumes
/// sessions: a certificate that expires or is revoked is noticed once the server's session tickets have ended too.
///
/// ```
/// # fn example(chain: &[u8], key: &[u8]) {
/// use leasehold::{Locker, Tls};
///
/// let tls = Tls::new().ca_file("/etc/redis/ca.pem").client_certificate_pem(chain, key);
/// let builder = Locker::builder().node("rediss://redis.internal:6380").tls(tls);
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "it does nothing until it is given to a builder"]
pub struct Tls {
    /// Empty for the platform's.
    roots: Vec<Pem>,
    identity: Option<Identity>,
    server_name: Option<String>,
    accepts_any: bool,
}

impl Tls {
    /// Trusts the platform's CAs, and presents no client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the CAs in this PEM text, and those of further calls, instead of the platform's.
    pub fn ca_pem(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        self.roots.push(Pem::Text(certificates.into()));
        self
    }

    /// As [`Tls::ca_pem`], from a file, which the locker reads once when it connects.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.roots.push(Pem::File(path.into()));
        self
    }

    /// Presents this certificate to servers that ask for one. Both are PEM texts: the certificate,
    /// followed by its issuers' certificates, and its private key.
    pub fn client_certificate_pem(
        mut self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity = Some(Identity { chain: chain.into(), key: key.into() });
        self
    }

    /// Expects certificates for this name, and asks for them by SNI, instead of the host in each URL.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Accepts any server certificate: expired, for another host, self-signed.
    ///
    /// An attacker on the network can then read the password and every lock's name, and answer in the
    /// server's place. Use it for experiments only. Nothing else turns the check off, no URL either.
    pub fn danger_accept_any_certificate(mut self) -> Self {
        self.accepts_any = true;
        self
    }

    /// What connections are made with; reads the files.
    pub(crate) fn client(&self) -> Result<Client, InvalidTls> {
        let provider = Arc::new(ring::default_provider());
        let server_name = self.server_name.as_deref().map(parse_name).transpose();
        let server_name = server_name.map_err(InvalidTls::ServerName)?;
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(InvalidTls::Other)?;
        let config = if self.accepts_any {
            let anybody = Arc::new(trust::Anybody(provider));
            config.dangerous().with_custom_certificate_verifier(anybody)
        } else {
            config.with_root_certificates(trust::roots(&self.roots)?)
        };
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = trust::identity(identity)?;
                config.with_client_auth_cert(chain, key).map_err(InvalidTls::Identity)?
            }
        };
        // A resumed session trusts the server's certificate for as long as the server's ticket lasts; and saves a
        // server to which all clients reconnect most of the work.
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Client { connector, server_name, is_patient: false })
    }
}

/// Without the certificates, and above all without the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("platform_roots", &self.roots.is_empty())
            .field("client_certificate", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .field("danger_accept_any_certificate", &self.accepts_any)
            .finish_non_exhaustive()
    }
}

/// Makes connections over TLS.
#[derive(Clone)]
pub struct Client {
    connector: TlsConnector,
    /// The name that every server's certificate must have; by default its host.
    server_name: Option<ServerName<'static>>,
    /// Whether handshakes have [`PATIENCE`].
    is_patient: bool,
}

impl Client {
    /// The same client for connections that replace another.
    #[must_use]
    pub fn patient(&self) -> Self {
        Self { is_patient: true, ..self.clone() }
    }

    /// The time for a whole connection, if a dial may take this long.
    #[must_use]
    pub fn whole(&self, within: Duration) -> Duration {
        if self.is_patient { within.saturating_mul(PATIENCE) } else { within }
    }

    /// The name for which the certificate of the server at `host` has to be.
    ///
    /// # Errors
    ///
    /// [`TlsFault::ServerName`] if the host cannot be in a certificate.
    pub fn name_for(&self, host: &str) -> Result<ServerName<'static>, TlsFault> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => parse_name(host).map_err(TlsFault::ServerName),
        }
    }

    /// Makes the handshake.
    pub(super) async fn agree(
        &self,
        host: &str,
        stream: TcpStream,
        until: Moment,
    ) -> io::Result<(ReadHalf, WriteHalf)> {
        let (stream, connection) = self.agree_over(host, stream, until).await?.into_inner();
        Ok(halves::split(stream, connection))
    }

    /// The same over any stream.
    pub(super) async fn agree_over<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
        until: Moment,
    ) -> io::Result<TlsStream<S>> {
        let agreeing = self.connector.connect(self.name_for(host)?, stream);
        let within = self.whole(until.since(clock::now()));
        match tokio::time::timeout(within, agreeing).await {
            Ok(Ok(agreed)) => Ok(agreed),
            Ok(Err(error)) => Err(TlsFault::of_handshake(&error)),
            Err(_) => Err(TlsFault::Silent(within).into()),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// The name of a server, or the text where it is none.
fn parse_name(text: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(text.to_owned()).map_err(|_| text.to_owned())
}

#[cfg(test)]
mod tests;
