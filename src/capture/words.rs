//! A command line taken apart as a POSIX shell would, and with the `$'...'` that browsers copy. It expands nothing: what a
//! shell would expand is refused, since its outcome is not in the text.

use super::CaptureError;

pub(super) fn words(text: &str) -> Result<Vec<String>, CaptureError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\\' => match chars.next() {
                Some('\n') => {}
                Some('\r') if chars.next_if_eq(&'\n').is_some() => {}
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(CaptureError::Quote),
            },
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or(CaptureError::Quote)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            '$' if chars.next_if_eq(&'\'').is_some() => ansi_quoted(&mut chars, word.get_or_insert_default())?,
            '$' if expands(chars.peek()) => return Err(CaptureError::Expansion),
            '`' => return Err(CaptureError::Expansion),
            '|' | ';' | '&' | '<' | '>' | '(' | ')' => return Err(CaptureError::Shell),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn expands(next: Option<&char>) -> bool {
    next.is_some_and(|c| c.is_ascii_alphanumeric() || "_{(@*#?!$-".contains(*c))
}

fn double_quoted(chars: &mut Chars<'_>, word: &mut String) -> Result<(), CaptureError> {
    loop {
        match chars.next().ok_or(CaptureError::Quote)? {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or(CaptureError::Quote)? {
                '\n' => {}
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            '$' if expands(chars.peek()) => return Err(CaptureError::Expansion),
            '`' => return Err(CaptureError::Expansion),
            c => word.push(c),
        }
    }
}

fn ansi_quoted(chars: &mut Chars<'_>, word: &mut String) -> Result<(), CaptureError> {
    loop {
        match chars.next().ok_or(CaptureError::Quote)? {
            '\'' => return Ok(()),
            '\\' => word.push(match chars.next().ok_or(CaptureError::Quote)? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => code_point(chars, 4)?,
                'U' => code_point(chars, 8)?,
                // A byte beyond ASCII would be half a character.
                'x' => Some(code_point(chars, 2)?).filter(char::is_ascii).ok_or(CaptureError::NotText)?,
                c @ ('\\' | '\'' | '"' | '?' | '!') => c,
                _ => return Err(CaptureError::Expansion),
            }),
            c => word.push(c),
        }
    }
}

fn code_point(chars: &mut Chars<'_>, most: usize) -> Result<char, CaptureError> {
    let mut value = 0;
    for _ in 0..most {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(16)) else { break };
        chars.next();
        value = value << 4 | digit;
    }
    char::from_u32(value).ok_or(CaptureError::NotText)
}
