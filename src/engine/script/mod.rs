//! JavaScript of function nodes: QuickJS, and what Node-RED's sandbox offers (facts engine §4.3).
