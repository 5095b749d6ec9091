//! Aligned columns. Where the screen is narrower than they are, the widest are folded; nothing is
//! left out. Pure.

use super::{Screen, Tone};

/// Between two columns.
const GAP: usize = 2;
/// No column is folded below that.
const FOLDED_MIN: usize = 12;

/// Rows under the names of their columns.
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

/// One field.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
    is_right: bool,
}

impl Cell {
    /// Coloured by what it means.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
            is_right: false,
        }
    }

    /// A number, whose digits stand below each other.
    pub(crate) fn number(text: impl Into<String>) -> Self {
        Self {
            is_right: true,
            ..Self::toned(text, Tone::Plain)
        }
    }

    /// The same with another meaning.
    pub(crate) fn with(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl Table {
    /// With these columns and no row.
    pub(crate) fn new(heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| Cell::toned(*head, Tone::Head));
        Self {
            rows: vec![heads.collect()],
        }
    }

    /// One more row, with a cell for each column.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
    }

    /// How wide it is where nothing is folded.
    pub(crate) fn width(&self) -> usize {
        total(&self.widths())
    }

    /// The lines, each with its end.
    pub(crate) fn render(&self, screen: Screen) -> String {
        let widths = fold(self.widths(), screen.width.unwrap_or(usize::MAX));
        let heads = self.rows.first().map_or(&[][..], Vec::as_slice);
        // The name of a column stands over its numbers.
        let is_right: Vec<_> = (0..heads.len()).map(|at| self.is_right(at)).collect();
        let rows = self.rows.iter();
        rows.flat_map(|row| lines(row, &widths, &is_right, screen))
            .collect()
    }

    fn is_right(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.any(|cell| cell.is_right)
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |row: &Vec<Cell>, at: usize| row.get(at).map_or(0, |cell| count(&cell.text));
        let widest = |at| self.rows.iter().map(|row| width(row, at)).max();
        (0..columns).map(|at| widest(at).unwrap_or(0)).collect()
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Takes from the widest until all fit, or none can give.
fn fold(mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    let mut over = total(&widths).saturating_sub(room);
    while over > 0
        && let Some(widest) = widths.iter_mut().max()
        && *widest > FOLDED_MIN
    {
        *widest -= 1;
        over -= 1;
    }
    widths
}

/// The lines of one row.
fn lines(row: &[Cell], widths: &[usize], is_right: &[bool], screen: Screen) -> Vec<String> {
    let folded: Vec<_> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| wrap(&cell.text, *width))
        .collect();
    let height = folded.iter().map(Vec::len).max().unwrap_or(0);
    let line = |at: usize| {
        let mut line = String::new();
        let mut owed = 0;
        for (column, (cell, pieces)) in row.iter().zip(&folded).enumerate() {
            let piece = pieces.get(at).map_or("", String::as_str);
            let room = widths[column].saturating_sub(count(piece));
            let before = if is_right[column] { room } else { 0 };
            if !piece.is_empty() {
                line.extend(std::iter::repeat_n(' ', owed + before));
                line.push_str(&cell.tone.paint(piece, screen));
                owed = GAP + room - before;
            } else {
                owed += GAP + room;
            }
        }
        line + "\n"
    };
    (0..height).map(line).collect()
}

/// Where text is broken, the best first: after one of these, unless that is in the first third.
const BREAKS: [&[char]; 3] = [&[' '], &[',', '/', '|'], &['.', '-']];

/// The pieces of `text`, none wider than `width`.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut rest: Vec<char> = text.chars().collect();
    let mut pieces = Vec::new();
    while rest.len() > width {
        let last = |marks: &&[char]| {
            let mut places = (width / 3 + 1..=width).rev();
            // A space may be beyond the edge: it is not shown.
            let beyond = marks.contains(&' ') && rest[width] == ' ';
            beyond
                .then_some(width)
                .or_else(|| places.find(|at| marks.contains(&rest[at - 1])))
        };
        let at = BREAKS.iter().find_map(last).unwrap_or(width);
        let tail = rest.split_off(at);
        pieces.push(rest.iter().collect::<String>().trim_end().to_owned());
        rest = tail.into_iter().skip_while(|c| *c == ' ').collect();
    }
    pieces.push(rest.into_iter().collect());
    pieces
}

/// `text`, or as much of it as there is room for, and a mark.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if count(text) <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    let mark = (width > 0).then_some('…');
    kept.chain(mark).collect()
}

fn count(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "COUNT", "IDENTITY"]);
        let id = "spiffe://cluster.local/ns/default/sa/hello";
        table.push(["hello".into(), Cell::number("7"), id.into()]);
        table.push(["a-longer-name".into(), Cell::number("1200"), "-".into()]);
        table
    }

    fn at(width: Option<usize>) -> Screen {
        Screen {
            width,
            coloured: false,
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let expected = "\
NAME           COUNT  IDENTITY
hello              7  spiffe://cluster.local/ns/default/sa/hello
a-longer-name   1200  -
";
        assert_eq!(table().render(at(None)), expected);
        assert_eq!(table().width(), 64);
    }

    #[test]
    fn the_widest_column_is_folded_and_nothing_is_lost() {
        let expected = "\
NAME           COUNT  IDENTITY
hello              7  spiffe://
                      cluster.local/ns/
                      default/sa/hello
a-longer-name   1200  -
";
        let shown = table().render(at(Some(40)));
        assert_eq!(shown, expected);
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
        for width in [1, 10, 20, 30] {
            let folded = table().render(at(Some(width)));
            assert_eq!(letters(&folded), letters(&shown), "{width}: {folded}");
        }
    }

    #[test]
    fn text_is_broken_where_it_reads_best() {
        let pieces = |text, width| wrap(text, width).join("|");
        assert_eq!(
            pieces("this machine, and nothing", 13),
            "this machine,|and nothing"
        );
        assert_eq!(
            pieces("this machine, and nothing", 14),
            "this machine,|and nothing"
        );
        assert_eq!(pieces("10.91.7.4:5432", 12), "10.91.7.|4:5432");
        assert_eq!(pieces("0123456789", 4), "0123|4567|89");
        assert_eq!(pieces("", 4), "");
    }

    #[test]
    fn colours_take_no_room() {
        let mut table = Table::new(&["A", "B"]);
        table.push([Cell::toned("ok", Tone::Good), "x".into()]);
        let screen = Screen {
            width: None,
            coloured: true,
        };
        let expected = "\x1b[1mA\x1b[0m   \x1b[1mB\x1b[0m\n\x1b[32mok\x1b[0m  x\n";
        assert_eq!(table.render(screen), expected);
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut("reviews", 7), "reviews");
        assert_eq!(cut("reviews", 4), "rev…");
        assert_eq!(cut("reviews", 0), "");
    }
}
