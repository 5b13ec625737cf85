//! How connections are made: plainly or encrypted, and what is checked of the server.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode as ClientSslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connections::sslmode::{SslMode, SslOfUrl};
use crate::options::Tls;

/// Sets in `config` whether connections must be encrypted. Gives the connector, or `None` where they never are.
pub(crate) fn encrypt(
    tls: &Tls,
    said: &SslOfUrl,
    config: &mut Config,
) -> Result<Option<MakeRustlsConnect>, String> {
    let mode = mode_of(tls, said.mode, config)?;
    config.ssl_mode(match mode {
        SslMode::Disable => ClientSslMode::Disable,
        SslMode::Prefer => ClientSslMode::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => ClientSslMode::Require,
    });
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match mode {
        SslMode::Disable => return Ok(None),
        SslMode::Prefer | SslMode::Require => Arc::new(AnyServer(provider.clone())),
        SslMode::VerifyCa => Arc::new(AnyName(signed_by_trusted(tls, said, &provider)?)),
        SslMode::VerifyFull => signed_by_trusted(tls, said, &provider)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| format!("TLS: {cause}"))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

/// What options and URL say together. What the options ask for, the URL cannot take back.
fn mode_of(tls: &Tls, said: Option<SslMode>, config: &Config) -> Result<SslMode, String> {
    // A socket in the file system leads to no other machine, and no server encrypts it.
    let all_sockets = !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_socket);
    let contradiction = |asked: &str| {
        let word = said.map_or("", SslMode::word);
        Err(format!("the options ask for {asked} and the URL says sslmode={word}: leave one of them out"))
    };
    match (tls, said) {
        (Tls::FromUrl, _) if all_sockets => Ok(SslMode::Disable),
        (Tls::FromUrl, Some(mode)) => Ok(mode),
        (Tls::FromUrl, None) if is_local(config) => Ok(SslMode::Prefer),
        (Tls::FromUrl, None) => Ok(SslMode::Require),
        (Tls::Off, None | Some(SslMode::Disable | SslMode::Prefer)) => Ok(SslMode::Disable),
        (Tls::Off, Some(SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull)) => {
            contradiction("plaintext")
        }
        (Tls::SystemRoots | Tls::Roots(_), Some(SslMode::Disable | SslMode::Prefer)) => contradiction("TLS"),
        (Tls::SystemRoots | Tls::Roots(_), Some(SslMode::VerifyCa)) => Ok(SslMode::VerifyCa),
        (Tls::SystemRoots | Tls::Roots(_), None | Some(SslMode::Require | SslMode::VerifyFull)) => {
            Ok(SslMode::VerifyFull)
        }
    }
}

/// Whether every server that may be connected to is on this machine.
fn is_local(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(IpAddr::is_loopback);
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

fn is_socket(host: &Host) -> bool {
    match host {
        Host::Tcp(_) => false,
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn signed_by_trusted(
    tls: &Tls,
    said: &SslOfUrl,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let roots = match (tls, said.root_certificates.as_deref()) {
        (Tls::Roots(pem), _) => roots_of(pem)?,
        (Tls::FromUrl, Some(path)) if path != "system" => {
            let pem = std::fs::read(path).map_err(|cause| format!("sslrootcert '{path}': {cause}"))?;
            roots_of(&pem)?
        }
        (Tls::FromUrl | Tls::Off | Tls::SystemRoots, _) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    if roots.is_empty() {
        return Err("there is no root certificate to check the server's with".to_string());
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|cause| format!("TLS: {cause}"))
}

fn roots_of(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|cause| format!("a root certificate: {cause}"))?;
        roots.add(certificate).map_err(|cause| format!("a root certificate: {cause}"))?;
    }
    Ok(roots)
}

/// Encrypts for any server: `prefer` and `require`, as libpq means them.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Checks everything but the name: `verify-ca`.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at last, so all else was right.
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_word_other_machines_are_reached_encrypted_only() {
        for (url, mode) in [
            ("postgres://a@db.example/x", SslMode::Require),
            ("postgres://a@10.0.0.7/x", SslMode::Require),
            ("postgres://a@localhost,db.example/x", SslMode::Require),
            ("host=localhost hostaddr=10.0.0.7 user=a", SslMode::Require),
            ("postgres://a@localhost/x", SslMode::Prefer),
            ("postgres://a@127.0.0.1:5432/x", SslMode::Prefer),
            ("postgres://a@[::1]/x", SslMode::Prefer),
            ("host=db.example hostaddr=127.0.0.1 user=a", SslMode::Prefer),
            ("host=/run/postgresql user=a", SslMode::Disable),
        ] {
            let config: Config = url.parse().expect("a URL");
            assert_eq!(mode_of(&Tls::FromUrl, None, &config), Ok(mode), "{url}");
        }
    }
}
