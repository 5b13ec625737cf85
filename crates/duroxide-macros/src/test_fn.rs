//! An async function as a test.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Error, ItemFn, Path, Result, Token, parse_quote};

const RIGHT_SHAPE: &str = "a test is `async fn name(env: TestEnv) -> Result<()>`";

/// What the attribute makes of an item: a test that runs it, or what is wrong with it.
pub(crate) fn expand(keys: TokenStream, item: TokenStream) -> TokenStream {
    match test(keys, item.clone()) {
        Ok(test) => test,
        // The item stays, so that what uses it has no mistakes of its own.
        Err(mistake) => {
            let mistake = mistake.into_compile_error();
            quote! { #mistake #item }
        }
    }
}

fn test(keys: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let duroxide = parse_keys.parse2(keys)?;
    let not_a_function =
        |_| Error::new_spanned(&item, format!("`#[duroxide::test]` belongs on a function: {RIGHT_SHAPE}"));
    let function: ItemFn = syn::parse2(item.clone()).map_err(not_a_function)?;
    check(&function)?;
    let ItemFn { attrs, vis, sig, block, .. } = &function;
    let (ident, inputs, output) = (&sig.ident, &sig.inputs, &sig.output);
    // What does not fit is reported at the function's name.
    let run = quote_spanned! { ident.span()=> #duroxide::testing::run_test(__test) };
    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis fn #ident() #output {
            async fn __test(#inputs) #output #block
            #run
        }
    })
}

/// The path of duroxide.
fn parse_keys(input: ParseStream<'_>) -> Result<Path> {
    if input.is_empty() {
        return Ok(parse_quote!(::duroxide));
    }
    if !input.peek(Token![crate]) {
        return Err(input.error("unknown key: `#[duroxide::test]` has the key `crate`"));
    }
    input.parse::<Token![crate]>()?;
    input.parse::<Token![=]>()?;
    let path = input.call(Path::parse_mod_style)?;
    input.parse::<Option<Token![,]>>()?;
    Ok(path)
}

fn check(function: &ItemFn) -> Result<()> {
    let sig = &function.sig;
    let wrong = |span, what: &str| Err(Error::new(span, format!("{what}: {RIGHT_SHAPE}")));
    if sig.asyncness.is_none() {
        return wrong(sig.fn_token.span(), "a test of duroxide is async");
    }
    if !sig.generics.params.is_empty() {
        return wrong(sig.generics.params.span(), "a test cannot be generic");
    }
    if sig.inputs.len() != 1 {
        return wrong(sig.ident.span(), "a test of duroxide takes one parameter");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(keys: TokenStream, item: TokenStream, why: &str) {
        let refused = test(keys, item).expect_err("refused").to_string();
        assert!(refused.contains(why), "{refused}");
    }

    #[test]
    fn a_test_runs_its_function_and_keeps_its_attributes() {
        let item = quote! { #[ignore] async fn one(env: TestEnv) -> Result<()> { Ok(()) } };
        let test = test(quote! {}, item).expect("it is a test").to_string();
        assert!(test.contains(":: duroxide :: testing :: run_test (__test)"), "{test}");
        assert!(test.contains("# [ignore] fn one () -> Result < () >"), "{test}");
    }

    #[test]
    fn duroxide_may_have_another_name() {
        let item = quote! { async fn one(env: TestEnv) {} };
        let test = test(quote! { crate = other::duroxide }, item).expect("it is a test").to_string();
        assert!(test.contains("other :: duroxide :: testing"), "{test}");
    }

    #[test]
    fn what_cannot_be_a_test_is_refused_with_the_right_shape() {
        let none = || quote! {};
        check_refused(none(), quote! { fn one(env: TestEnv) {} }, "is async: a test is `async fn");
        check_refused(none(), quote! { async fn one() {} }, "takes one parameter");
        check_refused(none(), quote! { async fn one(env: TestEnv, other: u32) {} }, "takes one parameter");
        check_refused(none(), quote! { async fn one<T>(env: T) {} }, "cannot be generic");
        check_refused(none(), quote! { struct One; }, "belongs on a function");
        check_refused(
            quote! { name = "one" },
            quote! { async fn one(env: TestEnv) {} },
            "has the key `crate`",
        );
    }
}
