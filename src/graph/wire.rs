//! Whether a file is made of whole messages, before it is decoded: the decoder reserves the lengths that a file states
//! and descends as deep as the file nests.

/// The deepest that messages nest: branches and loops hold graphs of their own.
const DEEPEST: usize = 64;

/// The messages of ONNX that are decoded.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TypedTensor,
    Sequence,
    Shape,
    /// One that holds no message.
    Last,
}

impl Message {
    /// The message that a field holds; `None` if it holds a number, a text or bytes.
    fn inner(self, field: u64) -> Option<Self> {
        Some(match (self, field) {
            (Self::Model, 7) | (Self::Attribute, 6) => Self::Graph,
            (Self::Model, 8 | 14) | (Self::Tensor, 13) | (Self::Shape, 1) => Self::Last,
            (Self::Graph, 1) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5) => Self::Tensor,
            (Self::Graph, 11..=13) => Self::Value,
            (Self::Node, 5) => Self::Attribute,
            (Self::Value, 2) | (Self::Sequence, 1) => Self::Type,
            (Self::Type, 1) => Self::TypedTensor,
            (Self::Type, 4) => Self::Sequence,
            (Self::TypedTensor, 2) => Self::Shape,
            _ => return None,
        })
    }
}

/// Whether every field of a model, and of the messages in it, lies inside the message that holds it.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    whole(Message::Model, bytes, DEEPEST).is_some()
}

fn whole(message: Message, mut bytes: &[u8], deeper: usize) -> Option<()> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        match key & 7 {
            0 => {
                varint(&mut bytes)?;
            }
            1 => bytes = bytes.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (field, rest) = bytes.split_at_checked(length)?;
                if let Some(inner) = message.inner(key >> 3) {
                    whole(inner, field, deeper.checked_sub(1)?)?;
                }
                bytes = rest;
            }
            5 => bytes = bytes.get(4..)?,
            _ => return None,
        }
    }
    Some(())
}

/// A number of seven bits a byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..10 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
