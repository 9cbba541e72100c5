//! Relative links in Markdown lead somewhere, and their `#section` is a heading there.

use super::Problem;
use super::tree::Tree;

pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (path, text) in tree.texts_ending(".md") {
        for (line, target) in targets(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let resolved = if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) };
            match resolved {
                Some(resolved) if tree.exists(&resolved) => {
                    if !section.is_empty()
                        && resolved.ends_with(".md")
                        && !headings(tree.text(&resolved).unwrap_or_default()).any(|heading| heading == section)
                    {
                        problems.push(Problem::new(path, line, format!("{resolved} has no section #{section}")));
                    }
                }
                _ => problems.push(Problem::new(path, line, format!("the link to {target} leads nowhere"))),
            }
        }
    }
}

/// Lines outside fenced code, as (line number, text).
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((number + 1, line))
    })
}

/// Targets of the inline links and images, as (line number, target). Inline code is no link.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for piece in line.split('`').step_by(2) {
            for (at, _) in piece.match_indices("](") {
                let rest = &piece[at + 2..];
                if let Some(end) = rest.find(')') {
                    // A title may follow the target: [text](target "title").
                    found.push((number, rest[..end].split_whitespace().next().unwrap_or("")));
                }
            }
        }
    }
    found
}

/// `link` as seen from the file `from`; `None` where it leaves the workspace.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document's headings, as the usual hosts make them: lower case, spaces to hyphens, punctuation gone.
fn headings(text: &str) -> impl Iterator<Item = String> + '_ {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        line.trim_start_matches('#')
            .trim()
            .chars()
            .filter_map(|character| match character {
                ' ' => Some('-'),
                '-' | '_' => Some(character),
                other if other.is_alphanumeric() => Some(other.to_ascii_lowercase()),
                _ => None,
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::from_files(&[("docs/a.md", text), ("docs/b.md", "# Of `b`: it\n"), ("README.md", "")]);
        let mut problems = Vec::new();
        check(&tree, &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "# Top\n[b](b.md) [up](../README.md) [s](b.md#of-b-it) [here](#top) [web](https://x.org/y.md) [dir](../docs/)\n";
        assert_eq!(messages(text), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        for text in ["[x](c.md)", "![x](../b.md)", "[x](../../out.md)", "[x](b.md#other)", "[x](#nothing \"title\")"] {
            assert_eq!(messages(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn code_is_not_prose() {
        assert_eq!(messages("`a[i](gone.md)`\n```\n[x](gone.md)\n```\n"), [""; 0]);
    }
}
