//! Hand-made SVG: a few shapes, a scale and its ticks. Colours and fonts come from the classes of
//! the page's style sheet, so charts follow the light and dark schemes.

use std::fmt::Write as _;

/// Escapes text for HTML and SVG, including attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Which point of a text its position fixes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing in progress. Lengths are in units of its view box; on a phone a unit is about a pixel.
#[derive(Debug)]
pub(crate) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    /// Draws a bar between two positions, in either order. The title is its tooltip.
    pub(crate) fn bar(
        &mut self,
        class: &str,
        (from, to): (f64, f64),
        (y, high): (f64, f64),
        title: &str,
    ) {
        let (left, wide) = (from.min(to), (to - from).abs());
        self.body += &rectangle(class, [left, y, wide, high], "", title);
    }

    /// Draws a rectangle with an opacity from 0 to 1.
    pub(crate) fn field(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (wide, high): (f64, f64),
        share: f64,
        title: &str,
    ) {
        let style = format!(r#" style="fill-opacity:{share:.2}""#);
        self.body += &rectangle(class, [x, y, wide, high], &style, title);
    }

    /// Draws rectangles of one class, each given by left, top, width and height. They form a single
    /// path, since there may be thousands.
    pub(crate) fn cells(&mut self, class: &str, cells: &[[f64; 4]]) {
        let mut data = String::new();
        for [x, y, wide, high] in cells {
            write!(data, "M{x:.1} {y:.1}h{wide:.1}v{high:.1}h-{wide:.1}z")
                .expect("writing to a string does not fail");
        }
        self.push(format_args!(r#"<path class="{class}" d="{data}"/>"#));
    }

    pub(crate) fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        let title = titled(title);
        self.push(format_args!(
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}">{title}</circle>"#
        ));
    }

    pub(crate) fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.push(format_args!(
            r#"<text class="{class}" text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        ));
    }

    /// Draws a line through points.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)], title: &str) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            write!(data, "{command}{x:.1} {y:.1}").expect("writing to a string does not fail");
        }
        let title = titled(title);
        self.push(format_args!(
            r#"<path class="{class}" d="{data}">{title}</path>"#
        ));
    }

    /// Returns the drawing, with a label for screen readers.
    pub(crate) fn finish(self, label: &str) -> String {
        let (width, height, body) = (self.width, self.height, self.body);
        let label = escape(label);
        let area = format!(r#"viewBox="0 0 {width:.0} {height:.0}""#);
        format!(r#"<svg {area} role="img" aria-label="{label}"><title>{label}</title>{body}</svg>"#)
    }

    fn push(&mut self, shape: std::fmt::Arguments<'_>) {
        self.body
            .write_fmt(shape)
            .expect("writing to a string does not fail");
    }
}

fn rectangle(class: &str, area: [f64; 4], style: &str, title: &str) -> String {
    let [x, y, wide, high] = area;
    let area = format!(r#"x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{high:.1}""#);
    let title = titled(title);
    format!(r#"<rect class="{class}" {area}{style}>{title}</rect>"#)
}

fn titled(title: &str) -> String {
    match title {
        "" => String::new(),
        title => format!("<title>{}</title>", escape(title)),
    }
}

/// Maps figures to positions along a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Scale {
    /// Returns the position of a figure. Figures off the scale are moved to its end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let span = self.high - self.low;
        let share = if span > 0.0 {
            (value - self.low) / span
        } else {
            0.5
        };
        let share = if share.is_nan() {
            0.5
        } else {
            share.clamp(0.0, 1.0)
        };
        self.from + share * (self.to - self.from)
    }

    /// Round figures along the scale, roughly `count` of them.
    pub(crate) fn ticks(&self, count: f64) -> Vec<f64> {
        let span = self.high - self.low;
        if !span.is_finite() || span <= 0.0 {
            return vec![self.low];
        }
        let rough = span / count;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * power);
        let mut ticks = Vec::new();
        let mut tick = (self.low / step).ceil() * step;
        while tick <= self.high + step * 1e-9 && ticks.len() < 50 {
            // Round tiny values to zero.
            ticks.push(if tick.abs() < step * 1e-9 { 0.0 } else { tick });
            tick += step;
        }
        ticks
    }
}

/// Largest number of ticks labelled with factors.
const FACTORS_MAX: usize = 5;

/// Round factors along a logarithmic scale. Returns at least two if one of the series allows it.
pub(crate) fn factor_ticks(low: f64, high: f64) -> Vec<f64> {
    let powers = |base: i32| -> Vec<f64> {
        let all = -TENS_MAX..=TENS_MAX;
        all.map(|power| f64::from(base).powi(power)).collect()
    };
    let steps = |step: f64| (1..=400).map(|count| f64::from(count) * step).collect();
    let halves = vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0];
    let ones_twos_fives = powers(10)
        .into_iter()
        .flat_map(|ten| [ten, 2.0 * ten, 5.0 * ten])
        .collect();
    // Even steps are not evenly spaced here, but look so within a factor of four.
    let narrow = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].map(steps);
    let narrow = narrow.into_iter().filter(|_| high - low < 4_f64.ln());
    let wide = [10, 100, 1000, 1_000_000].map(powers);
    let halves = Some(halves).filter(|_| 0.125_f64.ln() < low && high < 16_f64.ln());
    let series = halves.into_iter().chain(narrow);
    let series = series.chain([ones_twos_fives]).chain(wide);
    let on_scale = |factors: Vec<f64>| -> Vec<f64> {
        let is_on = |factor: &f64| low <= factor.ln() && factor.ln() <= high;
        factors.into_iter().filter(is_on).collect()
    };
    let mut on_scale = series.map(on_scale);
    on_scale
        .find(|ticks| (2..=FACTORS_MAX).contains(&ticks.len()))
        .unwrap_or_else(|| vec![1.0])
}

/// Largest power of ten, up and down, that a scale may reach.
const TENS_MAX: i32 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(low: f64, high: f64) -> Scale {
        Scale {
            low,
            high,
            from: 100.0,
            to: 300.0,
        }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(scale(-62.0, 31.0).ticks(4.0), [-50.0, 0.0]);
        assert_eq!(scale(0.0, 10.0).ticks(5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(scale(0.0, 0.0).ticks(5.0), [0.0]);
        assert_eq!(scale(f64::NEG_INFINITY, 1.0).ticks(5.0).len(), 1);
    }

    #[test]
    fn factor_ticks_are_few_and_round_on_any_scale() {
        for (low, high, expected) in [
            (0.95, 1.05, &[0.96, 0.98, 1.0, 1.02, 1.04][..]),
            (0.85, 1.17, &[0.9, 1.0, 1.1]),
            (0.45, 1.13, &[0.5, 1.0]),
            (0.45, 2.2, &[0.5, 1.0, 2.0]),
            (0.8, 1.95, &[1.0, 1.5]),
            (0.04, 1.2, &[0.05, 0.1, 0.2, 0.5, 1.0]),
            (0.002, 3.0, &[0.01, 0.1, 1.0]),
            (1e-9, 5.0, &[1e-8, 1e-6, 1e-4, 1e-2, 1.0]),
        ] {
            let found = factor_ticks(f64::ln(low), f64::ln(high));
            let are_alike = found.len() == expected.len()
                && found
                    .iter()
                    .zip(expected)
                    .all(|(a, b)| (a / b - 1.0).abs() < 1e-9);
            assert!(are_alike, "{low} … {high}: {found:?}");
        }
        for (low, high) in [(f64::NEG_INFINITY, 1.0), (f64::NAN, 0.0), (0.0, 0.0)] {
            assert!(factor_ticks(low, high).len() <= FACTORS_MAX);
        }
    }

    #[test]
    fn figures_off_the_scale_are_clamped_to_its_end() {
        let scale = scale(0.0, 10.0);
        for (value, place) in [(0.0, 100.0), (5.0, 200.0), (99.0, 300.0), (f64::NAN, 200.0)] {
            assert!((scale.at(value) - place).abs() < 1e-9);
        }
    }

    #[test]
    fn hostile_text_is_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("a", Anchor::End, (0.0, 0.0), "<script>alert('x')</script>");
        let text = svg.finish("\"&");
        assert!(!text.contains("<script>") && text.contains("aria-label=\"&quot;&amp;\""));
    }
}
