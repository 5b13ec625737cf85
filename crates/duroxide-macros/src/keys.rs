//! What is written in the attribute's parentheses.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, LitStr, Path, Result, Token};

use crate::kind::Kind;
use crate::version;

/// What the names of duroxide's own activities and orchestrations begin with.
const RESERVED_PREFIX: &str = "__duroxide";

/// The keys of one attribute.
#[derive(Default)]
pub(crate) struct Keys {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<LitStr>,
    /// What a cancel does, and for how long the program may go on after it.
    on_cancel: Option<LitStr>,
    within: Option<LitStr>,
    /// The path of duroxide.
    pub(crate) duroxide: Option<Path>,
}

impl Keys {
    pub(crate) fn parse(kind: Kind, tokens: TokenStream) -> Result<Self> {
        let parser = |input: ParseStream<'_>| {
            let mut keys = Self::default();
            while !input.is_empty() {
                keys.parse_one(kind, input)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            keys.compensate_ms()?;
            Ok(keys)
        };
        parser.parse2(tokens)
    }

    fn parse_one(&mut self, kind: Kind, input: ParseStream<'_>) -> Result<()> {
        let known = match kind {
            Kind::Activity => "`name` and `crate`",
            Kind::Orchestration => "`name`, `version`, `on_cancel`, `within` and `crate`",
        };
        let Ok(key) = input.call(Ident::parse_any) else {
            return Err(input.error(format!(
                "expected a key: `#[duroxide::{}]` has the keys {known}, as in `name = \"Name\"`",
                kind.word()
            )));
        };
        let text = key.to_string();
        match (text.as_str(), kind) {
            ("name", _) => set(&mut self.name, &key, literal(&key, input)?)?,
            ("version", Kind::Orchestration) => set(&mut self.version, &key, literal(&key, input)?)?,
            ("version", Kind::Activity) => {
                return Err(Error::new(
                    key.span(),
                    "an activity has no version: give one that works differently another name",
                ));
            }
            ("on_cancel", Kind::Orchestration) => set(&mut self.on_cancel, &key, literal(&key, input)?)?,
            ("within", Kind::Orchestration) => set(&mut self.within, &key, literal(&key, input)?)?,
            ("crate", _) => {
                equals(&key, input)?;
                set(&mut self.duroxide, &key, input.call(Path::parse_mod_style)?)?;
            }
            _ => {
                let text =
                    format!("unknown key `{text}`: `#[duroxide::{}]` has the keys {known}", kind.word());
                return Err(Error::new(key.span(), text));
            }
        }
        self.check()
    }

    /// How long the program may go on after a cancel, if it compensates.
    pub(crate) fn compensate_ms(&self) -> Result<Option<u64>> {
        match (&self.on_cancel, &self.within) {
            (None, None) => Ok(None),
            (Some(what), _) if what.value() != "compensate" => Err(Error::new(
                what.span(),
                "`on_cancel` can be \"compensate\": without the key a cancel ends the program",
            )),
            (Some(what), None) => Err(Error::new(
                what.span(),
                "`on_cancel` needs the time that the program may go on: `within = \"10m\"`",
            )),
            (None, Some(within)) => {
                Err(Error::new(within.span(), "`within` belongs to `on_cancel = \"compensate\"`"))
            }
            (Some(_), Some(within)) => milliseconds(&within.value()).map(Some).ok_or_else(|| {
                let text = "not a time: write a number above zero and its unit, as in \"30s\", \"10m\", \"2h\" or \"1d\"";
                Error::new(within.span(), text)
            }),
        }
    }

    fn check(&self) -> Result<()> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        match &self.version {
            Some(version) if !version::is_version(&version.value()) => Err(Error::new(
                version.span(),
                "not a version: write three numbers, as in \"2.0.0\" or \"2.1.0-beta.1\"",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// The milliseconds of a time such as `10m`; `None` if it is none, or zero.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit_ms).filter(|ms| *ms > 0)
}

fn check_name(name: &LitStr) -> Result<()> {
    let text = name.value();
    if text.is_empty() {
        return Err(Error::new(
            name.span(),
            "the stored name is empty: leave the key out to use the function's name",
        ));
    }
    check_reserved(&text).map_err(|cause| Error::new(name.span(), cause))
}

/// Whether a name is one of duroxide's own.
pub(crate) fn check_reserved(name: &str) -> std::result::Result<(), String> {
    if name.starts_with(RESERVED_PREFIX) {
        return Err(format!(
            "names that begin with `{RESERVED_PREFIX}` are reserved for duroxide: choose another name"
        ));
    }
    Ok(())
}

fn literal(key: &Ident, input: ParseStream<'_>) -> Result<LitStr> {
    equals(key, input)?;
    let ahead = input.fork();
    input.parse().map_err(|_| ahead.error(format!("`{key}` is a text: `{key} = \"..\"`")))
}

fn equals(key: &Ident, input: ParseStream<'_>) -> Result<()> {
    if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        return Ok(());
    }
    Err(Error::new(key.span(), format!("`{key}` needs a value: `{key} = ..`")))
}

fn set<T: ToTokens>(place: &mut Option<T>, key: &Ident, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(key.span(), format!("`{key}` is given twice: remove one of them"))),
    }
}
