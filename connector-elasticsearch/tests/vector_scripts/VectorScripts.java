// SPDX-License-Identifier: Apache-2.0
package org.connectors;

import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.function.DoubleSupplier;
import java.util.function.DoubleUnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.ScriptPlugin;
import org.elasticsearch.script.DocReader;
import org.elasticsearch.script.ScoreScript;
import org.elasticsearch.script.ScriptContext;
import org.elasticsearch.script.ScriptEngine;
import org.elasticsearch.script.VectorScoreScriptUtils;
import org.elasticsearch.search.lookup.SearchLookup;

/**
 * Runs the scripts of exact vector searches, since the server of the tests lacks Painless.
 *
 * <p>It knows these four scripts only. It compares vectors with the server's own functions.
 */
public final class VectorScripts extends Plugin implements ScriptPlugin {
    private static final Pattern CALL =
            Pattern.compile("(cosineSimilarity|dotProduct|l2norm)\\(params\\.vector, '([^']+)'\\)");
    private static final Map<String, DoubleUnaryOperator> SCRIPTS =
            Map.of(
                    "(1.0 + cosineSimilarity) / 2.0", d -> (1.0 + d) / 2.0,
                    "(1.0 + dotProduct) / 2.0", d -> (1.0 + d) / 2.0,
                    "double d = l2norm; return 1.0 / (1.0 + d * d)", d -> 1.0 / (1.0 + d * d),
                    "double d = dotProduct; return d < 0 ? 1.0 / (1.0 - d) : d + 1.0",
                            d -> d < 0 ? 1.0 / (1.0 - d) : d + 1.0);

    @Override
    public ScriptEngine getScriptEngine(Settings settings, Collection<ScriptContext<?>> contexts) {
        return new Engine();
    }

    private static final class Engine implements ScriptEngine {
        @Override
        public String getType() {
            return "painless";
        }

        @Override
        public Set<ScriptContext<?>> getSupportedContexts() {
            return Set.of(ScoreScript.CONTEXT);
        }

        @Override
        public <T> T compile(
                String name, String source, ScriptContext<T> context, Map<String, String> options) {
            Matcher call = CALL.matcher(source);
            DoubleUnaryOperator score =
                    call.find() ? SCRIPTS.get(call.replaceFirst(call.group(1))) : null;
            if (score == null) {
                throw new IllegalArgumentException("unknown script: " + source);
            }
            ScoreScript.Factory factory =
                    (params, lookup) ->
                            new Leaf(params, lookup, call.group(1), call.group(2), score);
            return context.factoryClazz.cast(factory);
        }
    }

    private record Leaf(
            Map<String, Object> params,
            SearchLookup lookup,
            String function,
            String field,
            DoubleUnaryOperator score)
            implements ScoreScript.LeafFactory {
        @Override
        public boolean needs_score() {
            return false;
        }

        @Override
        public boolean needs_termStats() {
            return false;
        }

        @Override
        public ScoreScript newInstance(DocReader reader) {
            return new Script(this, reader);
        }
    }

    private static final class Script extends ScoreScript {
        private final Leaf leaf;
        private DoubleSupplier compared;

        Script(Leaf leaf, DocReader reader) {
            super(leaf.params(), leaf.lookup(), reader);
            this.leaf = leaf;
        }

        @Override
        public double execute(ExplanationHolder explanation) {
            if (compared == null) {
                compared = function(); // it reads the document, as in Painless
            }
            return leaf.score().applyAsDouble(compared.getAsDouble());
        }

        private DoubleSupplier function() {
            Object vector = leaf.params().get("vector");
            String field = leaf.field();
            return switch (leaf.function()) {
                case "cosineSimilarity" ->
                        new VectorScoreScriptUtils.CosineSimilarity(this, vector, field)
                                ::cosineSimilarity;
                case "dotProduct" ->
                        new VectorScoreScriptUtils.DotProduct(this, vector, field)::dotProduct;
                default -> new VectorScoreScriptUtils.L2Norm(this, vector, field)::l2norm;
            };
        }
    }
}
