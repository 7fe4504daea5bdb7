//! The size of the code: `tests/size.toml` has the tokens of every module, which may fall in any commit and rise only
//! there, with the reason in the commit.

use crate::files::{below, blessing, root};
use proc_macro2::{Spacing, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::fs;

/// Tokens without comments, documentation and what is compiled for tests alone.
fn tokens(stream: TokenStream) -> usize {
    let mut count = 0;
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        count += match tree {
            TokenTree::Group(group) => 2 + tokens(group.stream()),
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                // `#![…]` has a mark between.
                trees.next_if(|tree| matches!(tree, TokenTree::Punct(mark) if mark.as_char() == '!'));
                let Some(TokenTree::Group(attribute)) = trees.next() else {
                    panic!("`#` without an attribute");
                };
                let text = attribute.stream().to_string().replace(' ', "");
                if text == "cfg(test)" {
                    let is_end = |tree: &TokenTree| match tree {
                        TokenTree::Group(group) => group.delimiter() == proc_macro2::Delimiter::Brace,
                        TokenTree::Punct(mark) => mark.as_char() == ';',
                        _ => false,
                    };
                    trees.find(is_end);
                }
                match text == "cfg(test)" || text.starts_with("doc=") {
                    true => 0,
                    false => 3 + tokens(attribute.stream()),
                }
            }
            TokenTree::Punct(mark) => usize::from(mark.spacing() == Spacing::Alone),
            TokenTree::Ident(_) | TokenTree::Literal(_) => 1,
        };
    }
    count
}

#[test]
fn no_module_grows_unnoticed() {
    let source = root().join("src");
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for path in below(&["src"], "rs") {
        let inside = path.strip_prefix(&source).unwrap().with_extension("");
        let mut names = inside.iter().map(|name| name.to_str().unwrap());
        // No module of the core has the name of one beside it.
        let module = names.clone().find(|name| *name != "core").unwrap();
        if names.all(|name| name != "tests") {
            let text = fs::read_to_string(&path).unwrap();
            let stream = text
                .parse()
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            *sizes.entry(module.to_owned()).or_default() += tokens(stream);
        }
    }
    sizes.retain(|_, size| *size > 0);
    let of_product = sizes.iter().filter(|(module, _)| *module != "maintain");
    let total: usize = of_product.map(|(_, size)| size).sum();
    let budget = root().join("tests/size.toml");
    if blessing() {
        let heading = "# Tokens of code by module, without comments and tests; `tests/main/size.rs` compares them.\n";
        let lines = sizes.iter().map(|(module, size)| format!("{module} = {size}\n"));
        fs::write(
            &budget,
            format!(
                "{heading}# The product has {total}; `maintain` is a package that is not published.\n{}",
                lines.collect::<String>()
            ),
        )
        .unwrap();
        return;
    }
    let known: BTreeMap<String, usize> = toml::from_str(&fs::read_to_string(&budget).unwrap()).unwrap();
    for (module, size) in &sizes {
        let least = known.get(module).copied().unwrap_or(0);
        assert!(
            *size <= least,
            "{module} has {size} tokens, {least} in tests/size.toml; shorten it, or raise the number and say why in the commit"
        );
    }
}

#[test]
fn comments_documentation_and_tests_count_nothing() {
    let count = |text: &str| tokens(text.parse().unwrap());
    assert_eq!(
        count("/// One.\nfn one() -> u8 { 1 } // x"),
        count("fn one() -> u8 { 1 }")
    );
    assert_eq!(count("fn one() -> u8 { 1 }"), 9);
    assert_eq!(count("a::b"), 3);
    assert_eq!(count("#[cfg(test)] mod tests { fn f() {} } x"), 1);
    assert_eq!(count("#[cfg(test)] mod tests; x"), 1);
    assert_eq!(count("#[test] fn f() {}"), 4 + 6);
}
