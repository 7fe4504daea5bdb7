//! The web page in a browser.

#[test]
fn the_page_works_in_a_browser() {
    crate::browser::passes("page.test.mjs", "SHAPEWISE_BIN", &crate::cli::program());
}
