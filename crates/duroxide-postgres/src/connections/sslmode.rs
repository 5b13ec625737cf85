//! What a URL says about encryption, in libpq's words. The PostgreSQL client below knows only some of them, so they are
//! taken out of the URL before it sees it.

/// libpq's `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SslMode {
    /// Plaintext.
    Disable,
    /// Encrypted if the server can, whoever it is.
    Prefer,
    /// Encrypted, whoever the server is.
    Require,
    /// Encrypted, with a certificate that a trusted authority has signed.
    VerifyCa,
    /// The same, and the certificate is for the server's name.
    VerifyFull,
}

impl SslMode {
    fn from_word(word: &str) -> Result<Self, String> {
        match word {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            other => Err(format!(
                "the URL of the store: sslmode '{other}' is not one of disable, prefer, require, verify-ca, verify-full"
            )),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// A URL taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SslOfUrl {
    /// The URL without what stands below.
    pub(crate) url: String,
    pub(crate) mode: Option<SslMode>,
    /// The file with the authorities to trust.
    pub(crate) root_certificates: Option<String>,
}

/// Takes `sslmode` and `sslrootcert` out of a URL, or of the form `host=.. user=..`.
pub(crate) fn take(url: &str) -> Result<SslOfUrl, String> {
    let mut taken = SslOfUrl::default();
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        let words = url.split_whitespace().filter_map(|word| taken.keep(word).transpose());
        taken.url = words.collect::<Result<Vec<_>, _>>()?.join(" ");
        return Ok(taken);
    }
    let Some((base, query)) = url.split_once('?') else {
        taken.url = url.to_string();
        return Ok(taken);
    };
    let parts = query.split('&').filter_map(|part| taken.keep(part).transpose());
    let rest = parts.collect::<Result<Vec<_>, _>>()?;
    taken.url = if rest.is_empty() { base.to_string() } else { format!("{base}?{}", rest.join("&")) };
    Ok(taken)
}

impl SslOfUrl {
    /// The part, unless it is one that is taken out.
    fn keep<'a>(&mut self, part: &'a str) -> Result<Option<&'a str>, String> {
        match part.split_once('=') {
            Some(("sslmode", word)) => self.mode = Some(SslMode::from_word(word)?),
            Some(("sslrootcert", path)) => self.root_certificates = Some(decoded(path)),
            Some(_) | None => return Ok(Some(part)),
        }
        Ok(None)
    }
}

/// A path with its `%xx` as the characters that they stand for.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex =
            (byte == b'%').then(|| after.get(..2)).flatten().and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(value) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(value);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_says_about_encryption_is_taken_out_of_it() {
        let check = |url: &str, rest: &str, mode: Option<SslMode>, roots: Option<&str>| {
            let taken = take(url).expect("a URL");
            assert_eq!(
                (taken.url.as_str(), taken.mode, taken.root_certificates.as_deref()),
                (rest, mode, roots)
            );
        };
        check("postgres://a@b/c", "postgres://a@b/c", None, None);
        check("postgres://a@b/c?sslmode=verify-full", "postgres://a@b/c", Some(SslMode::VerifyFull), None);
        check(
            "postgresql://a@b/c?connect_timeout=3&sslmode=verify-ca&sslrootcert=%2Fetc%2Fca.pem",
            "postgresql://a@b/c?connect_timeout=3",
            Some(SslMode::VerifyCa),
            Some("/etc/ca.pem"),
        );
        check("host=b user=a sslmode=disable", "host=b user=a", Some(SslMode::Disable), None);
    }

    #[test]
    fn a_word_that_libpq_does_not_have_is_refused_with_those_it_has() {
        let error = take("postgres://a:secret@b/c?sslmode=on").expect_err("no such word");
        assert!(error.contains("verify-full") && !error.contains("secret"), "{error}");
    }
}
