// Questions to the user, as modal dialogs: the browser keeps the focus in them, and Escape closes them.

import { h, put } from './dom.js';
import { t } from './text.js';

// Asks; `act` is called with the text of the field, if there is one (one with a pattern
// has a single line), and an error of it is shown in the dialog. `body` are
// more elements, or a promise of them, before which the action cannot be taken. Resolves to whether it was done.
export function confirm({ title, text, body, field, action, danger, act }) {
    return new Promise((resolve) => {
        let done = false;
        const error = h('p', { class: 'notice bad', role: 'alert', hidden: true });
        const limits = field && { maxlength: field.max, required: field.required };
        const input = field && (field.pattern ? h('input', { ...limits, pattern: field.pattern }) : h('textarea', limits, field.value ?? ''));
        const go = h('button', { class: danger ? 'danger' : 'primary', type: 'submit' }, action);
        const more = h('div', { class: 'stack', 'aria-live': 'polite' });
        const dialog = h('dialog', { 'aria-labelledby': 'dialog-title', onclose: () => { dialog.remove(); resolve(done); } },
            h('form', { onsubmit: submit },
                h('h2', { id: 'dialog-title' }, title),
                text && h('p', null, text),
                more,
                input && h('label', { class: 'field' }, field.label, input),
                error,
                h('div', { class: 'actions' },
                    h('button', { type: 'button', onclick: () => dialog.close() }, t('cancel')), go)));

        async function submit(event) {
            event.preventDefault();
            go.disabled = true;
            error.hidden = true;
            try {
                await act(input?.value.trim());
                done = true;
                dialog.close();
            } catch (problem) {
                error.textContent = problem.message;
                error.hidden = false;
                go.disabled = false;
            }
        }

        async function fill() {
            go.disabled = true;
            put(more, h('p', { class: 'muted' }, t('loading')));
            try {
                const { elements, allowed } = await body();
                put(more, elements);
                go.disabled = !allowed;
                if (allowed && !input) go.focus();
            } catch (problem) {
                put(more, h('p', { class: 'notice bad', role: 'alert' }, problem.message));
            }
        }

        document.body.append(dialog);
        dialog.showModal();
        if (body) fill();
    });
}
