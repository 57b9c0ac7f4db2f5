//! The patterns of paths in the table of endpoints.

/// Returns whether lower-case segments are a path of this pattern: `*` is any segment, `@*` any
/// scope of a module's name, `+` one or more to the end, `**` any number to the end.
pub(super) fn fits(pattern: &[&str], segments: &[&str]) -> bool {
    let Some((first, pattern)) = pattern.split_first() else {
        return segments.is_empty();
    };
    if *first == "**" {
        return true;
    }
    let Some((segment, segments)) = segments.split_first() else {
        return false;
    };
    match *first {
        "+" => true,
        "*" => fits(pattern, segments),
        "@*" => is_scope(segment) && fits(pattern, segments),
        literal => literal == *segment && fits(pattern, segments),
    }
}

/// Returns whether the segment is the `@scope` of a module's name.
fn is_scope(segment: &str) -> bool {
    segment.starts_with('@') || segment.starts_with("%40")
}
