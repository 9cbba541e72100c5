//! What every source file keeps to: an opening that says what it is for, a length one can review, no machine's own paths.

use super::Problem;
use super::tree::Tree;

/// Lines at which a file is a question for review.
const LINES_MAX: usize = 600;

/// Files that were longer when the rule came, with their length then. A ratchet: entries shrink or go, none is added.
const LONGER: &[(&str, usize)] = &[];

/// Extensions (or whole names) of the texts in which a path of somebody's machine would be a mistake.
const TEXT_ENDINGS: [&str; 8] = [".rs", ".toml", ".md", ".sh", ".py", ".txt", "/run", "dev"];

pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (path, text) in tree.texts_ending(".rs") {
        if !text.starts_with("//!") {
            problems.push(Problem::new(
                path,
                1,
                "the file opens with //!: what it answers for, what it leaves to others",
            ));
        }
        check_length(path, text, LONGER, problems);
    }
    for (path, text) in tree.texts() {
        if TEXT_ENDINGS.iter().any(|ending| path.ends_with(ending)) {
            check_machine_paths(path, text, problems);
        }
    }
}

fn check_length(path: &str, text: &str, longer: &[(&str, usize)], problems: &mut Vec<Problem>) {
    let lines = text.lines().count();
    let limit = longer.iter().find(|(long, _)| *long == path).map_or(LINES_MAX, |(_, lines)| *lines);
    if lines > limit {
        problems.push(Problem::new(path, 0, format!("{lines} lines, {limit} at most: split it")));
    } else if limit > LINES_MAX && lines < limit {
        problems.push(Problem::new(
            path,
            0,
            format!("has shrunk to {lines} lines: turn the ratchet in xtask sources.rs"),
        ));
    }
}

/// Home folders and the like: they are right on one machine only.
fn check_machine_paths(path: &str, text: &str, problems: &mut Vec<Problem>) {
    // Put together here, so that this file does not hold what it looks for; whether a user's name comes first.
    let beginnings = [("root", false), ("work", false), ("home", true), ("Users", true)];
    for (number, line) in text.lines().enumerate() {
        for (folder, named) in beginnings {
            let beginning = format!("/{folder}/");
            let absolute = line.match_indices(&beginning).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let rest = &line[at + beginning.len()..];
                let inside = rest.find(|character: char| !character.is_alphanumeric() && !"_-.".contains(character));
                // Within a longer path or an address it is a folder of that name, not a machine's.
                before.is_none_or(|before| !before.is_alphanumeric() && !"/.$}~_-*)".contains(before))
                    && (!named || inside.is_some_and(|end| end > 0 && rest[end..].starts_with('/')))
            });
            if absolute {
                problems.push(Problem::new(path, number + 1, format!("{beginning}... is a path of one machine")));
            }
        }
    }
}

/// The code of a file's lines as (line number, code): comments and the insides of strings removed, everything from the
/// first `#[cfg(test)]` on left out (unit tests stand last). Files of tests have none. Line by line, so a string or a
/// comment that spans lines is read as code; good enough to look for words.
pub fn code_without_tests<'a>(path: &str, text: &'a str) -> impl Iterator<Item = (usize, String)> + use<'a> {
    let is_test_file = path.ends_with("/tests.rs") || path.contains("/tests/");
    text.lines()
        .take_while(move |line| !is_test_file && !line.trim_start().starts_with("#[cfg(test)]"))
        .enumerate()
        .map(|(number, line)| (number + 1, code_of(line)))
}

/// One line without its comment and the insides of its strings.
fn code_of(line: &str) -> String {
    let mut code = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    let mut in_string = false;
    while let Some(character) = characters.next() {
        match (in_string, character) {
            (true, '\\') => {
                characters.next();
            }
            (_, '"') => {
                in_string = !in_string;
                code.push('"');
            }
            (true, _) => {}
            (false, '/') if characters.peek() == Some(&'/') => break,
            (false, _) => code.push(character),
        }
    }
    code
}

/// Whether `word` stands in `code` by itself.
pub fn has_word(code: &str, word: &str) -> bool {
    code.split(|character: char| !character.is_alphanumeric() && character != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Tree::from_files(&[(path, text)]), &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_without_an_opening_is_named() {
        assert_eq!(messages("a.rs", "//! What it is for.\n"), [""; 0]);
        assert_eq!(messages("a.rs", "fn f() {}\n").len(), 1);
        assert_eq!(messages("a.rs", "").len(), 1);
    }

    #[test]
    fn length_is_bounded_and_the_ratchet_only_turns_down() {
        let text = |lines: usize| format!("//! x\n{}", "\n".repeat(lines - 1));
        assert_eq!(messages("a.rs", &text(600)), [""; 0]);
        assert_eq!(messages("a.rs", &text(601)).len(), 1);
        let with_ratchet = |lines| {
            let mut problems = Vec::new();
            check_length("a.rs", &text(lines), &[("a.rs", 700)], &mut problems);
            problems.len()
        };
        assert_eq!([with_ratchet(701), with_ratchet(700), with_ratchet(699)], [1, 0, 1]);
    }

    #[test]
    fn paths_of_one_machine_are_named() {
        let home = format!("see /{}/anna/run.nc\n", "home");
        assert_eq!(messages("a.md", &home).len(), 1);
        assert_eq!(messages("tests/e2e/a.sh", &format!("cd /{}/x\n", "root")).len(), 1);
        let elsewhere = format!("https://example.org/{}/x, ./{}/x, mounted on /{}/u\n", "home", "work", "home");
        assert_eq!(messages("a.md", &elsewhere), [""; 0]);
    }

    #[test]
    fn code_is_told_from_comments_strings_and_tests() {
        assert_eq!(code_of(r#"let a = "un\"safe // x"; // unsafe"#), "let a = \"\"; ");
        assert!(has_word("pub unsafe fn", "unsafe") && !has_word("unsafe_code", "unsafe"));
        let text = "a\nb\n#[cfg(test)]\nc\n";
        assert_eq!(code_without_tests("src/a.rs", text).count(), 2);
        assert_eq!(code_without_tests("src/a/tests.rs", text).count(), 0);
    }
}
