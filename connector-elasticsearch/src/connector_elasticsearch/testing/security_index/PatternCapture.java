// SPDX-License-Identifier: Apache-2.0
package connectors;

import java.util.regex.Pattern;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.pattern.PatternCaptureGroupTokenFilter;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/** The parts of an e-mail address, as tokens. */
@NamedComponent("pattern_capture")
public class PatternCapture implements TokenFilterFactory {
    @Override
    public TokenStream create(TokenStream input) {
        return new PatternCaptureGroupTokenFilter(
                input, true, Pattern.compile("([^@]+)"), Pattern.compile("@(.+)"));
    }
}
