//! A batch of JSON in, the same batch of JSON out: one object, an array, or objects one after another.

use serde_json::value::RawValue;
use thiserror::Error;

/// How the batch was spelt, and how its answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Array,
    Lines,
}

pub(super) struct Batch<'a> {
    shape: Shape,
    pub(super) items: Vec<&'a RawValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum BatchFault {
    #[error("there is nothing: give one JSON object, an array of them, or one a line")]
    Empty,
    #[error("it is not JSON: line {line}, column {column}")]
    Syntax { line: usize, column: usize },
    #[error("it is not UTF-8")]
    Encoding,
    #[error("something follows the array")]
    BesideArray,
}

impl<'a> Batch<'a> {
    pub(super) fn read(text: &'a [u8]) -> Result<Batch<'a>, BatchFault> {
        let text = std::str::from_utf8(text).map_err(|_| BatchFault::Encoding)?;
        let mut values = Vec::new();
        for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
            values.push(value.map_err(|error| syntax(&error))?);
        }
        let array = values.iter().position(|value| value.get().starts_with('['));
        match (array, values.as_slice()) {
            (_, []) => Err(BatchFault::Empty),
            (None, _) => Ok(Batch { shape: Shape::Lines, items: values }),
            (Some(_), [array]) => {
                let items: Vec<&RawValue> = serde_json::from_str(array.get()).map_err(|error| syntax(&error))?;
                Ok(Batch { shape: Shape::Array, items })
            }
            (Some(_), _) => Err(BatchFault::BesideArray),
        }
    }

    /// Whether the answer is one JSON document, or one a line.
    pub(super) fn is_one_document(&self) -> bool {
        self.shape == Shape::Array || self.items.len() == 1
    }

    /// The answers in the batch's own spelling, each on a line.
    pub(super) fn answer(&self, answers: &[String]) -> String {
        match self.shape {
            Shape::Lines => answers.iter().flat_map(|answer| [answer.as_str(), "\n"]).collect(),
            Shape::Array => format!("[{}]\n", answers.join(",\n")),
        }
    }
}

/// Its place only: the text of a parser's error may quote what it met.
fn syntax(error: &serde_json::Error) -> BatchFault {
    BatchFault::Syntax { line: error.line(), column: error.column() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_of_a_batch_is_read_and_answered_in_kind() {
        let answers = ["1".to_owned(), "2".to_owned()];
        for (text, items, answer) in [
            (" {\"a\": 1}\n", 1, "1\n"),
            ("{}\n{}\n", 2, "1\n2\n"),
            ("{}{\n}", 2, "1\n2\n"),
            ("[{}, []]", 2, "[1,\n2]\n"),
            (" [ ] ", 0, "[]\n"),
        ] {
            let batch = Batch::read(text.as_bytes()).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert_eq!(batch.items.len(), items, "{text}");
            assert_eq!(batch.answer(&answers[..items]), answer, "{text}");
        }
    }

    #[test]
    fn what_is_no_batch_is_refused_by_its_place_alone() {
        for (text, fault) in [
            (&b" \n"[..], BatchFault::Empty),
            (b"{}\n{\"hush\": 01}", BatchFault::Syntax { line: 2, column: 11 }),
            (b"{\"hush\"", BatchFault::Syntax { line: 1, column: 7 }),
            (b"\xff", BatchFault::Encoding),
            (b"[{}] {}", BatchFault::BesideArray),
            (b"{} [{}]", BatchFault::BesideArray),
        ] {
            assert_eq!(Batch::read(text).map(drop), Err(fault));
            assert!(!fault.to_string().contains("hush"));
        }
    }
}
