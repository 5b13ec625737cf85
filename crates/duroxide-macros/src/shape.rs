//! Whether a function can be a handler. Each mistake is reported where it stands.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Error, FnArg, GenericParam, ItemFn, PatType, Result, ReturnType, Safety, Signature, Type};

use crate::kind::Kind;

/// The types of a handler's signature.
pub(crate) struct Shape<'a> {
    pub(crate) context: &'a Type,
    pub(crate) output: &'a Type,
}

/// Checks a function, all mistakes at once.
pub(crate) fn check(kind: Kind, function: &ItemFn) -> Result<Shape<'_>> {
    let signature = &function.sig;
    let mut mistakes = Mistakes::default();
    mistakes.note(check_qualifiers(kind, signature));
    mistakes.note(check_generics(kind, signature));
    let context = mistakes.note(check_parameters(kind, signature));
    let output = mistakes.note(check_output(kind, signature));
    mistakes.into_result()?;
    match (context, output) {
        (Some(context), Some(output)) => Ok(Shape { context, output }),
        (None, _) | (_, None) => unreachable!("without a mistake there is a context and an output"),
    }
}

#[derive(Default)]
struct Mistakes {
    all: Option<Error>,
}

impl Mistakes {
    fn note<T>(&mut self, checked: Result<T>) -> Option<T> {
        checked.map_err(|mistake| self.add(mistake)).ok()
    }

    fn add(&mut self, mistake: Error) {
        match &mut self.all {
            Some(all) => all.combine(mistake),
            None => self.all = Some(mistake),
        }
    }

    fn into_result(self) -> Result<()> {
        self.all.map_or(Ok(()), Err)
    }
}

fn check_qualifiers(kind: Kind, signature: &Signature) -> Result<()> {
    let described = kind.described();
    if let Some(word) = &signature.constness {
        return Err(Error::new(word.span, format!("{described} cannot be a `const fn`: remove `const`")));
    }
    if let Safety::Unsafe(word) = &signature.safety {
        let text =
            format!("{described} cannot be an `unsafe fn`: remove `unsafe`, and keep it inside the body");
        return Err(Error::new(word.span, text));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new_spanned(
            abi,
            format!("{described} cannot be an `extern` function: remove it"),
        ));
    }
    if signature.asyncness.is_none() {
        let text = format!("{described} is an async function: write `async fn {}`", signature.ident);
        return Err(Error::new(signature.fn_token.span, text));
    }
    Ok(())
}

fn check_generics(kind: Kind, signature: &Signature) -> Result<()> {
    let described = kind.described();
    let generics = &signature.generics;
    match generics.params.first() {
        None => {}
        // The parameter that borrows is the mistake; it is reported as such.
        Some(GenericParam::Lifetime(_)) if has_borrow(signature.inputs.to_token_stream()) => {}
        Some(GenericParam::Lifetime(lifetime)) => {
            return Err(Error::new_spanned(lifetime, owns_its_input(described)));
        }
        Some(parameter) => {
            let text = format!(
                "{described} cannot be generic: a stored name stands for one function. Write one function for each type, \
                 which may call a generic one"
            );
            return Err(Error::new_spanned(parameter, text));
        }
    }
    match &generics.where_clause {
        None => Ok(()),
        Some(clause) => {
            Err(Error::new_spanned(clause, format!("{described} cannot be generic: remove `where`")))
        }
    }
}

fn check_parameters(kind: Kind, signature: &Signature) -> Result<&Type> {
    let described = kind.described();
    let mut parameters = Vec::new();
    for parameter in &signature.inputs {
        match parameter {
            FnArg::Receiver(receiver) => {
                let text = format!(
                    "{described} cannot be a method: write a function of its own. What it needs from `self` comes with its \
                     input, or in an activity from `ctx.state()`"
                );
                return Err(Error::new_spanned(receiver, text));
            }
            FnArg::Typed(typed) => parameters.push(typed),
        }
    }
    let context = kind.context();
    match parameters.as_slice() {
        [] => Err(Error::new(
            signature.paren_token.span.join(),
            format!(
                "{described} has two parameters, `ctx: {context}` and its input: `(ctx: {context}, input: In)`"
            ),
        )),
        [only] if is_named(&only.ty, context) => Err(Error::new_spanned(
            only,
            format!(
                "{described} has two parameters, and its input is missing: add `input: In`, or `_input: ()` for none"
            ),
        )),
        [only] => Err(Error::new_spanned(only, missing_context(kind))),
        [first, input] => check_two(kind, first, input).map(|()| &*first.ty),
        [_, _, third, ..] => Err(Error::new_spanned(
            third,
            format!("{described} has one input besides `ctx`: put several into a struct or a tuple"),
        )),
    }
}

fn check_two(kind: Kind, first: &PatType, input: &PatType) -> Result<()> {
    let (described, context) = (kind.described(), kind.context());
    let other = kind.other();
    if let Type::Reference(reference) = &*first.ty
        && (is_named(&reference.elem, context) || is_named(&reference.elem, other.context()))
    {
        return Err(Error::new_spanned(
            &first.ty,
            format!("{described} owns its context: write `ctx: {context}`"),
        ));
    }
    if is_named(&input.ty, context) {
        return Err(Error::new_spanned(
            input,
            format!("`ctx: {context}` is the first parameter of {described}"),
        ));
    }
    if is_named(&first.ty, other.context()) {
        let text = format!(
            "this is the context of {}: use `#[duroxide::{}]`, or take `ctx: {context}`",
            other.described(),
            other.word()
        );
        return Err(Error::new_spanned(&first.ty, text));
    }
    if let Type::ImplTrait(any) = &*input.ty {
        let text = format!(
            "{described} cannot be generic: a stored name stands for one function. Name the type of its input"
        );
        return Err(Error::new_spanned(any, text));
    }
    if has_borrow(input.ty.to_token_stream()) {
        return Err(Error::new_spanned(&input.ty, owns_its_input(described)));
    }
    Ok(())
}

fn check_output(kind: Kind, signature: &Signature) -> Result<&Type> {
    let described = kind.described();
    let text = format!(
        "{described} returns a `Result`: write `-> Result<Out>`, or `-> Result<()>` if there is nothing to return"
    );
    match &signature.output {
        ReturnType::Default => Err(Error::new(signature.paren_token.span.close(), text)),
        ReturnType::Type(_, output) if is_no_result(output) => Err(Error::new_spanned(output, text)),
        ReturnType::Type(_, output) => Ok(output),
    }
}

/// Whether a type cannot be a `Result` for what is written. A path may be an alias of one: the compiler looks at it.
fn is_no_result(output: &Type) -> bool {
    matches!(
        output,
        Type::Array(_)
            | Type::ImplTrait(_)
            | Type::Never(_)
            | Type::Ptr(_)
            | Type::Reference(_)
            | Type::Slice(_)
            | Type::TraitObject(_)
            | Type::Tuple(_)
    )
}

fn missing_context(kind: Kind) -> String {
    format!("the context is missing: {}", kind.right_shape())
}

fn owns_its_input(described: &str) -> String {
    format!(
        "{described} owns its input, which is read from the store: use an owned type, `String` instead of `&str`"
    )
}

/// Whether a type is a path that ends with this name.
fn is_named(ty: &Type, name: &str) -> bool {
    if let Type::Path(path) = ty {
        return path.path.segments.last().is_some_and(|last| last.ident == name);
    }
    // What a macro has put together is in invisible parentheses.
    matches!(ty, Type::Group(group) if is_named(&group.elem, name))
}

/// Whether there is a `&` or a lifetime. `'static` is none: a type with it may own its data.
fn has_borrow(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Group(group) => has_borrow(group.stream()),
            TokenTree::Punct(punct) => match punct.as_char() {
                '&' => true,
                '\'' => !matches!(tokens.peek(), Some(TokenTree::Ident(name)) if name == "static"),
                _ => false,
            },
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        if found {
            return true;
        }
    }
    false
}
