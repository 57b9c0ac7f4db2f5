// Adds thousands of routes, whose expressions take long for a path of many letters.
"use strict";

module.exports = function (RED) {
    const end = (request, response) => response.end();
    for (let n = 0; n < 5000; n++) RED.httpAdmin.get(new RegExp(`^\\/slow(a+)+(.*)(.*)${n}$`), end);
    for (let n = 0; n < 4900; n++) RED.httpAdmin.get(`/slow${n}/:a-:b-:c-:d`, end);
};
