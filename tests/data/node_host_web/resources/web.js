window.webResource = true;
