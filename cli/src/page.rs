//! A page of rows below a heading, which keys scroll.

/// A line for a wide terminal, and the same for a narrow one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub wide: String,
    pub narrow: String,
}

/// The page. The heads stay in place.
#[derive(Debug, Default)]
pub struct Page {
    pub heads: Vec<Row>,
    pub rows: Vec<Row>,
    /// The number of rows above the first visible one.
    above: usize,
    /// The number of rows that fit.
    room: usize,
    before: u8,
}

/// Minimum columns of a wide terminal.
const WIDE: usize = 80;

impl Row {
    /// A row with the same text for all terminals.
    pub fn plain(text: impl Into<String>) -> Self {
        let wide = text.into();
        Self { narrow: wide.clone(), wide }
    }

    fn fitting(&self, columns: usize) -> &str {
        if columns >= WIDE { &self.wide } else { &self.narrow }
    }
}

impl Page {
    /// Sets the rows, and keeps the position.
    pub fn set(&mut self, heads: Vec<Row>, rows: Vec<Row>) {
        (self.heads, self.rows) = (heads, rows);
    }

    /// Scrolls by a pager's keys.
    pub fn press(&mut self, key: u8) {
        let is_arrow = self.before == b'[';
        self.before = key;
        let page = self.room.max(1);
        self.above = match key {
            b'A' if is_arrow => self.above.saturating_sub(1),
            b'B' if is_arrow => self.above + 1,
            b'k' => self.above.saturating_sub(1),
            b'j' => self.above + 1,
            b'b' => self.above.saturating_sub(page),
            b' ' => self.above + page,
            b'g' => 0,
            b'G' => self.rows.len(),
            _ => self.above,
        };
    }

    /// The lines that fit.
    pub fn lines(&mut self, (height, columns): (usize, usize)) -> Vec<String> {
        let mut lines: Vec<String> =
            self.heads.iter().take(height).map(|row| row.fitting(columns).to_owned()).collect();
        let left = height - lines.len();
        if self.rows.len() <= left {
            (self.above, self.room) = (0, left);
            lines.extend(self.rows.iter().map(|row| row.fitting(columns).to_owned()));
            return lines;
        }
        // The last line says how many rows are hidden.
        self.room = left.saturating_sub(1);
        self.above = self.above.min(self.rows.len() - self.room);
        let shown = self.rows.iter().skip(self.above).take(self.room);
        lines.extend(shown.map(|row| row.fitting(columns).to_owned()));
        let below = self.rows.len() - self.above - self.room;
        if left > 0 {
            lines.push(format!("{} above, {below} below (j k b space)", self.above));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: usize) -> Page {
        let mut page = Page::default();
        page.set(
            vec![Row::plain("head")],
            (0..rows).map(|row| Row::plain(row.to_string())).collect(),
        );
        page
    }

    #[test]
    fn what_fits_is_shown_whole() {
        assert_eq!(page(2).lines((3, 80)), ["head", "0", "1"]);
        assert_eq!(page(2).lines((1, 80)), ["head"]);
        assert_eq!(page(2).lines((0, 80)), [""; 0]);
    }

    #[test]
    fn what_does_not_fit_is_counted_and_moved_to() {
        let mut page = page(9);
        let mut after = |keys: &str| {
            keys.bytes().for_each(|key| page.press(key));
            page.lines((5, 80))[1..].to_vec()
        };
        assert_eq!(after(""), ["0", "1", "2", "0 above, 6 below (j k b space)"]);
        assert_eq!(after("jj")[..2], ["2", "3"]);
        assert_eq!(after("k\x1b[B\x1b[B\x1b[A")[0], "2");
        assert_eq!(after(" ")[0], "5");
        assert_eq!(after("G"), ["6", "7", "8", "6 above, 0 below (j k b space)"]);
        assert_eq!(after("k")[0], "5");
        assert_eq!(after("b")[0], "2");
        assert_eq!(after("g")[0], "0");
    }

    #[test]
    fn a_narrow_terminal_gets_narrow_rows() {
        let mut page = Page::default();
        page.set(Vec::new(), vec![Row { wide: "wide".into(), narrow: "narrow".into() }]);
        assert_eq!(
            (page.lines((5, 79)), page.lines((5, 80))),
            (vec!["narrow".into()], vec!["wide".into()])
        );
    }
}
