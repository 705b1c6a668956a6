//! What to trust: the roots, our own certificate, and the verifier that accepts any.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls_native_certs::load_native_certs;
use tokio_rustls::rustls;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The source of certificates.
#[derive(Clone)]
pub(super) enum Pem {
    Text(Vec<u8>),
    File(PathBuf),
}

/// Our own certificate.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) chain: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// What is wrong with the caller's files or texts. No key is ever shown.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTls {
    /// A file cannot be read.
    #[error("the CA file {path} cannot be read: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A text without certificates, or with broken ones.
    #[error("{whose} has no usable certificate in PEM form: {why}")]
    Certificates {
        /// The source of the text.
        whose: String,
        /// The error.
        why: String,
    },
    /// The platform has no CA certificates.
    #[error(
        "the platform has no CA certificates: install them, or give a CA's (Tls::ca_file, --ca): {0}"
    )]
    NoPlatformRoots(String),
    /// The key cannot be read.
    #[error("the client certificate's private key is not in PEM form (PKCS#8, PKCS#1 or SEC1)")]
    Key,
    /// The key is not the certificate's, or of an unsupported kind.
    #[error("the client certificate cannot be used with its private key: {0}")]
    Identity(rustls::Error),
    /// No certificate can be for this name.
    #[error("\"{0}\" is no valid host name for TLS")]
    ServerName(String),
    /// Another error of rustls.
    #[error("TLS cannot be set up: {0}")]
    Other(rustls::Error),
}

/// The trusted CAs.
pub(super) fn roots(given: &[Pem]) -> Result<RootCertStore, InvalidTls> {
    let mut store = RootCertStore::empty();
    if given.is_empty() {
        let found = load_native_certs();
        // A broken certificate among the platform's is skipped.
        let (added, _) = store.add_parsable_certificates(found.certs);
        let first = found.errors.first().map_or_else(String::new, ToString::to_string);
        return if added == 0 { Err(InvalidTls::NoPlatformRoots(first)) } else { Ok(store) };
    }
    for pem in given {
        let (whose, read) = match pem {
            Pem::Text(text) => ("the CA".to_owned(), certificates(text)),
            Pem::File(path) => {
                let text = std::fs::read(path)
                    .map_err(|error| InvalidTls::File { path: path.clone(), error })?;
                (format!("the CA file {}", path.display()), certificates(&text))
            }
        };
        let added = read.and_then(|certificates| {
            let add = |certificate| store.add(certificate).map_err(|error| error.to_string());
            certificates.into_iter().try_for_each(add)
        });
        added.map_err(|why| InvalidTls::Certificates { whose, why })?;
    }
    Ok(store)
}

type Chain = Vec<CertificateDer<'static>>;

/// Our own certificate and its key.
pub(super) fn identity(given: &Identity) -> Result<(Chain, PrivateKeyDer<'static>), InvalidTls> {
    let chain = certificates(&given.chain).map_err(|why| InvalidTls::Certificates {
        whose: "the client certificate".to_owned(),
        why,
    })?;
    // The parser's error could show a part of the key.
    let key = PrivateKeyDer::from_pem_slice(&given.key).map_err(|_| InvalidTls::Key)?;
    Ok((chain, key))
}

/// The certificates in a PEM text; at least one.
fn certificates(text: &[u8]) -> Result<Chain, String> {
    let read: Result<Chain, _> = CertificateDer::pem_slice_iter(text).collect();
    match read {
        Ok(chain) if chain.is_empty() => Err("none was found".to_owned()),
        Ok(chain) => Ok(chain),
        // The text may be a key by mistake, so the error does not repeat it.
        Err(_) => Err("it is malformed".to_owned()),
    }
}

/// Accepts any certificate, and checks only that the server has its key.
#[derive(Debug)]
pub(super) struct Anybody(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
