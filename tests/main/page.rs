//! The web page in a browser, and its launch lines.

#[test]
fn the_page_works_in_a_browser() {
    crate::browser::passes("page.test.mjs", "SHAPEWISE_BIN", &crate::cli::program());
}

#[test]
fn launch_lines_have_flags_of_the_real_programs() {
    crate::browser::passes("launch.test.mjs", "SHAPEWISE_BIN", &crate::cli::program());
}
