//! A checker for tests: whether a text is well-formed markup, as far as a browser that reads XML strictly would insist.

/// Panics where tags do not nest, quotes do not close, or `<` and `&` stand bare.
pub fn check(markup: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = markup;
    while let Some(at) = rest.find(['<', '&', '>']) {
        let (before, from) = rest.split_at(at);
        assert!(!before.chars().any(is_forbidden), "a control character in {before:?}");
        rest = match from.as_bytes()[0] {
            b'&' => {
                let end = from.find(';').unwrap_or_else(|| panic!("a bare & in {from:.40}"));
                let entity = &from[1..end];
                assert!(["amp", "lt", "gt", "quot", "#39"].contains(&entity), "unknown entity {entity}");
                &from[end + 1..]
            }
            b'>' => panic!("a bare > before {from:.40}"),
            _ if from.starts_with("<!DOCTYPE html>") => &from["<!DOCTYPE html>".len()..],
            _ => tag(from, &mut open),
        };
    }
    assert!(!rest.chars().any(is_forbidden), "a control character in {rest:?}");
    assert!(open.is_empty(), "still open: {open:?}");
}

fn is_forbidden(character: char) -> bool {
    character.is_control() && !"\n\r\t".contains(character)
}

/// Reads a tag and returns what follows it.
fn tag<'a>(from: &'a str, open: &mut Vec<String>) -> &'a str {
    let mut quoted = false;
    let end = from
        .char_indices()
        .find(|&(_, character)| {
            quoted ^= character == '"';
            character == '>' && !quoted
        })
        .map_or_else(|| panic!("a tag without an end: {from:.60}"), |(at, _)| at);
    let inside = &from[1..end];
    let name: String = inside.trim_start_matches('/').chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
    assert!(!name.is_empty(), "a tag without a name: {inside:.40}");
    if inside.starts_with('/') {
        assert_eq!(open.pop().as_ref(), Some(&name), "tags that do not nest");
    } else if !inside.ends_with('/') && !["meta"].contains(&name.as_str()) {
        open.push(name.clone());
    }
    if name == "style" && !inside.starts_with('/') {
        // Its text is not markup; it has no `<`.
        return &from[from.find("</style>").expect("a style sheet that ends")..];
    }
    &from[end + 1..]
}
