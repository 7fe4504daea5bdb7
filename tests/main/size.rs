//! The size of the code: `tests/size.toml` has the tokens of every module, which may fall in any commit and rise only
//! there, with the reason in the commit.

use proc_macro2::{Spacing, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

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

/// The tokens of a file or folder, test files left out.
fn size(path: &Path) -> usize {
    let name = path.file_stem().unwrap();
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return entries
            .filter(|path| path.file_stem() != Some("tests".as_ref()))
            .map(|path| size(&path))
            .sum();
    }
    if path.extension() != Some("rs".as_ref()) || name == "tests" {
        return 0;
    }
    let text = fs::read_to_string(path).unwrap();
    let stream: TokenStream = text
        .parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    tokens(stream)
}

#[test]
fn no_module_grows_unnoticed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = fs::read_dir(root.join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sizes: BTreeMap<String, usize> = modules
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), size(&path)))
        .filter(|(_, size)| *size > 0)
        .collect();
    let total: usize = sizes.values().sum();
    let budget = root.join("tests/size.toml");
    if env::var_os("SHAPEWISE_BLESS").is_some() {
        let heading = "# Tokens of code by module, without comments and tests; `tests/main/size.rs` compares them.\n";
        let lines = sizes.iter().map(|(module, size)| format!("{module} = {size}\n"));
        fs::write(
            &budget,
            format!("{heading}# All: {total}.\n{}", lines.collect::<String>()),
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
