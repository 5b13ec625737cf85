//! The function with its entry in the program's list of handlers.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, ItemFn, Path, Result, parse_quote};

use crate::keys::{Keys, check_reserved};
use crate::kind::Kind;
use crate::shape::{self, Shape};

/// What the attribute makes of an item: the item itself, and its entry or what is wrong with it.
pub(crate) fn handler(kind: Kind, keys: TokenStream, item: TokenStream) -> TokenStream {
    let Ok(function) = syn::parse2::<ItemFn>(item.clone()) else {
        // A function with a syntax error is the compiler's to report; anything else is in the wrong place.
        let mistake = not_a_function(kind, &item).map(Error::into_compile_error);
        return quote! { #mistake #item };
    };
    let guards = guards(kind);
    match entry(kind, keys, &function) {
        Ok(entry) => quote! { #guards #function #entry },
        // The function stays, so that what uses it has no mistakes of its own.
        Err(mistake) => {
            let mistake = mistake.into_compile_error();
            quote! { #mistake #function }
        }
    }
}

fn not_a_function(kind: Kind, item: &TokenStream) -> Option<Error> {
    let looks_like_one = item.clone().into_iter().any(|token| token.to_string() == "fn");
    let is_other_item = syn::parse2::<syn::Item>(item.clone()).is_ok();
    (is_other_item || !looks_like_one).then(|| {
        let text =
            format!("`#[duroxide::{}]` belongs on an async function: {}", kind.word(), kind.right_shape());
        Error::new_spanned(item, text)
    })
}

/// Lints that find what makes a replay decide otherwise. They stand before the function's own attributes, which can allow them.
fn guards(kind: Kind) -> Option<TokenStream> {
    match kind {
        Kind::Activity => None,
        Kind::Orchestration => Some(quote! {
            #[deny(
                clippy::disallowed_methods,
                clippy::disallowed_types,
                clippy::disallowed_macros,
                clippy::iter_over_hash_type
            )]
        }),
    }
}

fn entry(kind: Kind, keys: TokenStream, function: &ItemFn) -> Result<TokenStream> {
    let keys = Keys::parse(kind, keys);
    let shape = shape::check(kind, function);
    let (keys, shape) = match (keys, shape) {
        (Ok(keys), Ok(shape)) => (keys, shape),
        (Err(mut mistake), Err(other)) => {
            mistake.combine(other);
            return Err(mistake);
        }
        (Err(mistake), Ok(_)) | (Ok(_), Err(mistake)) => return Err(mistake),
    };
    let ident = &function.sig.ident;
    let name = match &keys.name {
        Some(name) => name.value(),
        None => ident.unraw().to_string(),
    };
    check_reserved(&name).map_err(|cause| Error::new(ident.span(), cause))?;
    let duroxide = keys.duroxide.clone().unwrap_or_else(|| parse_quote!(::duroxide));
    let checks = checks(kind, &duroxide, &shape);
    // A mistake that only the compiler sees is reported at the function's name.
    let registered = match (kind, &keys.version) {
        (Kind::Activity, _) => quote_spanned! { ident.span()=> __builder.activity(#name, #ident) },
        (Kind::Orchestration, None) => {
            quote_spanned! { ident.span()=> __builder.orchestration(#name, #ident) }
        }
        (Kind::Orchestration, Some(version)) => {
            quote_spanned! { ident.span()=> __builder.orchestration_versioned(#name, #version, #ident) }
        }
    };
    let compensates = keys.compensate_ms()?.map(|ms| {
        quote! { .compensate_on_cancel(#ident, ::core::time::Duration::from_millis(#ms)) }
    });
    Ok(quote! {
        const _: () = {
            #checks
            fn __register(__builder: #duroxide::app::Builder) -> #duroxide::app::Builder {
                #registered #compensates
            }
            #duroxide::__private::inventory::submit! {
                #duroxide::app::Discovered {
                    place: ::core::concat!(::core::file!(), ":", ::core::line!()),
                    register: __register,
                }
            }
        };
    })
}

/// Bounds on the written types, so that their mistakes are reported there and in our words.
fn checks(kind: Kind, duroxide: &Path, shape: &Shape<'_>) -> TokenStream {
    let Shape { context, output } = shape;
    let check = format_ident!("check_{}", kind.word());
    let context = quote_spanned! { context.span()=> #duroxide::__private::#check::<#context>(); };
    let output = quote_spanned! { output.span()=> #duroxide::__private::check_output::<#output>(); };
    quote! {
        const _: fn() = || {
            #context
            #output
        };
    }
}
