// How a file of cases is format: a line for each node, step and thing that is seen.

export function format(cases) {
    const all = Object.entries(cases).map(([name, given]) => {
        const parts = Object.entries(given).map(([key, value]) => `    ${JSON.stringify(key)}: ${lines(value)}`);
        return `  ${JSON.stringify(name)}: {\n${parts.join(',\n')}\n  }`;
    });
    return `{\n${all.join(',\n')}\n}\n`;
}

function lines(value) {
    if (!Array.isArray(value) || value.length === 0) {
        return JSON.stringify(value);
    }
    return `[\n${value.map((each) => `      ${JSON.stringify(each)}`).join(',\n')}\n    ]`;
}
