//! Elements for selectors that take each step through the document from the budget of the node.

use html5ever::Namespace;
use scraper::ElementRef;
use scraper::selector::{CssLocalName, CssString, NonTSPseudoClass, PseudoElement, Simple};
use selectors::attr::{AttrSelectorOperation, CaseSensitivity, NamespaceConstraint};
use selectors::bloom::BloomFilter;
use selectors::matching::{ElementSelectorFlags, MatchingContext};
use selectors::{Element, OpaqueElement};
use value::budget;

/// An element of a document. Once the budget is exceeded it has neither relatives nor properties:
/// whatever a selector still looks for, it ends soon.
#[derive(Clone, Debug)]
pub(super) struct Counted<'a>(pub ElementRef<'a>);

impl<'a> Counted<'a> {
    fn relative(&self, find: impl Fn(&ElementRef<'a>) -> Option<ElementRef<'a>>) -> Option<Self> {
        if budget::work(4).is_err() {
            return None;
        }
        find(&self.0).map(Self)
    }

    fn property(&self, is: impl Fn(&ElementRef<'a>) -> bool) -> bool {
        budget::work(1).is_ok() && is(&self.0)
    }
}

impl Element for Counted<'_> {
    type Impl = Simple;

    fn opaque(&self) -> OpaqueElement {
        self.0.opaque()
    }

    fn parent_element(&self) -> Option<Self> {
        self.relative(Element::parent_element)
    }

    fn parent_node_is_shadow_root(&self) -> bool {
        false
    }

    fn containing_shadow_host(&self) -> Option<Self> {
        None
    }

    fn is_pseudo_element(&self) -> bool {
        false
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        self.relative(Element::prev_sibling_element)
    }

    fn next_sibling_element(&self) -> Option<Self> {
        self.relative(Element::next_sibling_element)
    }

    fn first_element_child(&self) -> Option<Self> {
        self.relative(Element::first_element_child)
    }

    fn is_html_element_in_html_document(&self) -> bool {
        self.0.is_html_element_in_html_document()
    }

    fn has_local_name(&self, name: &CssLocalName) -> bool {
        self.property(|element| element.has_local_name(name))
    }

    fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.0.has_namespace(namespace)
    }

    fn is_same_type(&self, other: &Self) -> bool {
        self.property(|element| element.is_same_type(&other.0))
    }

    fn attr_matches(
        &self,
        namespace: &NamespaceConstraint<&Namespace>,
        name: &CssLocalName,
        operation: &AttrSelectorOperation<&CssString>,
    ) -> bool {
        let attributes = self.0.value().attrs();
        let units = attributes.map(|(_, value)| 1 + value.len() / 16).sum();
        budget::work(units).is_ok() && self.0.attr_matches(namespace, name, operation)
    }

    fn match_non_ts_pseudo_class(
        &self,
        _: &NonTSPseudoClass,
        _: &mut MatchingContext<'_, Self::Impl>,
    ) -> bool {
        false
    }

    fn match_pseudo_element(
        &self,
        _: &PseudoElement,
        _: &mut MatchingContext<'_, Self::Impl>,
    ) -> bool {
        false
    }

    fn apply_selector_flags(&self, _: ElementSelectorFlags) {}

    fn is_link(&self) -> bool {
        self.0.is_link()
    }

    fn is_html_slot_element(&self) -> bool {
        true
    }

    fn has_id(&self, id: &CssLocalName, case_sensitivity: CaseSensitivity) -> bool {
        self.property(|element| Element::has_id(element, id, case_sensitivity))
    }

    fn has_class(&self, name: &CssLocalName, case_sensitivity: CaseSensitivity) -> bool {
        self.property(|element| Element::has_class(element, name, case_sensitivity))
    }

    fn has_custom_state(&self, _: &CssLocalName) -> bool {
        false
    }

    fn imported_part(&self, _: &CssLocalName) -> Option<CssLocalName> {
        None
    }

    fn is_part(&self, _: &CssLocalName) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        self.property(Element::is_empty)
    }

    fn is_root(&self) -> bool {
        self.property(Element::is_root)
    }

    fn add_element_unique_hashes(&self, _: &mut BloomFilter) -> bool {
        false
    }
}
