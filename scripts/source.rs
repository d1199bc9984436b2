//! A Rust file as `tidy` sees it: its code without comments and literals, and which lines are
//! tests.
//!
//! This is a lexer for well-formed, rustfmt-formatted files (the compiler sees them too), not a
//! parser. Invariant: the masked text has exactly as many lines as the file.

/// One Rust file, line by line.
pub struct Source<'a> {
    /// The lines as written.
    pub lines: Vec<&'a str>,
    /// The same lines with comments blanked and the inside of literals removed.
    pub code: Vec<String>,
    /// Whether the line belongs to a test.
    pub test: Vec<bool>,
}

impl<'a> Source<'a> {
    /// Splits a file. `whole_file_is_test` holds for files in a `tests` folder.
    pub fn new(text: &'a str, whole_file_is_test: bool) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let code: Vec<String> = mask(text).lines().map(str::to_owned).collect();
        let test = if whole_file_is_test { vec![true; lines.len()] } else { test_lines(&code) };
        Self { lines, code, test }
    }

    /// The name of the function around line `index` (the nearest `fn` above it).
    pub fn function_at(&self, index: usize) -> Option<&str> {
        self.code[..=index].iter().rev().find_map(|line| {
            let (before, rest) = line.split_once("fn ")?;
            let end = rest.find(|c: char| !is_word(c))?;
            (!before.ends_with(is_word) && end > 0).then(|| &rest[..end])
        })
    }
}

/// Whether the character can be inside an identifier.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Marks the items that stand under `#[cfg(test)]`, from the attribute to the closing brace.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut test = vec![false; code.len()];
    let mut index = 0;
    while index < code.len() {
        if code[index].trim_start().starts_with("#[cfg(test)]") {
            let end = item_end(code, index);
            test[index..=end].fill(true);
            index = end;
        }
        index += 1;
    }
    test
}

/// The last line of the item that starts at `start`: its closing brace, or its semicolon.
fn item_end(code: &[String], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, line) in code.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth <= 1 => return index,
                '}' => depth -= 1,
                ';' if depth == 0 => return index,
                _ => {}
            }
        }
    }
    code.len() - 1
}

/// Replaces comments by nothing and literals by empty ones; keeps every newline.
fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let previous_is_word = out.ends_with(is_word);
        let literal = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_len(rest)
        } else if c == '"' {
            string_len(rest)
        } else if c == 'r' && !previous_is_word {
            raw_string_len(rest)
        } else if rest.starts_with("br") && !previous_is_word {
            // The prefix stays as code; the raw string after it is one byte further.
            raw_string_len(&rest[1..]).checked_add(1).filter(|&n| n > 1).unwrap_or(0)
        } else if c == '\'' {
            char_len(rest)
        } else {
            0
        };
        let (taken, after) = rest.split_at(if literal == 0 { c.len_utf8() } else { literal });
        if literal == 0 {
            out.push_str(taken);
        } else {
            if !taken.starts_with('/') {
                out.push_str("\"\"");
            }
            out.extend(taken.chars().filter(|&c| c == '\n'));
        }
        rest = after;
    }
    out
}

fn block_comment_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

fn string_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of a raw string that starts with `r`, or 0 if this is none (an identifier, `r#type`).
fn raw_string_len(text: &str) -> usize {
    let hashes = text[1..].bytes().take_while(|&b| b == b'#').count();
    if text.as_bytes().get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let start = hashes + 2;
    text[start..].find(&close).map_or(text.len(), |at| start + at + close.len())
}

/// The length of a character literal, or 0 for a lifetime.
fn char_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(0, |at| at + 4),
        Some((at, c)) if text[at + c.len_utf8()..].starts_with('\'') => at + c.len_utf8() + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_not_code() {
        let text = "let a = \"x // { \\\" y\"; // todo\nlet b = r#\"\"{\"#; /* { /* */ \n } */ \
                    let c = '{';\n\
                    fn f<'a>(x: &'a str) { b'\\''; br\"{\" }\n";
        let masked = mask(text);
        assert_eq!(masked.lines().count(), text.lines().count());
        assert!(!masked.contains("todo") && !masked.contains('y'), "{masked}");
        assert_eq!(masked.matches('{').count(), 1, "{masked}");
        assert!(masked.contains("let c ="), "{masked}");
        assert!(masked.contains("fn f<'a>(x: &'a str)"), "{masked}");
    }

    #[test]
    fn test_items_end_at_their_brace_or_semicolon() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n\
                    #[cfg(test)]\nmod more;\nfn d() {}\n";
        let source = Source::new(text, false);
        let want = [false, true, true, true, true, false, true, true, false];
        assert_eq!(source.test, want);
    }

    #[test]
    fn the_function_around_a_line_is_named() {
        let source =
            Source::new("fn wait_for() {\n    x();\n}\nfn other() {\n    y();\n}\n", false);
        assert_eq!(source.function_at(1), Some("wait_for"));
        assert_eq!(source.function_at(4), Some("other"));
    }
}
